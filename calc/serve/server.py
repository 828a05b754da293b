"""One server, step by step: a queue, a cache in pages, prompts read in what a step has left, sequences that decode.

Between two events (somebody finishes, arrives, or runs out of room) all steps are alike but for one token more in every
sequence, and pass at once: their time is linear in the context, so the first and the last of them tell the sum.
"""

from __future__ import annotations

import heapq
import math
from collections import deque

from calc.serve.clock import StepClock
from calc.serve.decoding import Decoding
from calc.serve.gaps import Gaps
from calc.serve.holding import Holding
from calc.serve.pages import Pages
from calc.serve.prefixes import Prefixes
from calc.serve.promises import Promises
from calc.serve.requests import Request
from calc.serve.running import Piece, Rules, Running, pieces_of
from calc.serve.waiting import Waiting

PROMISED = 16
"""Steps between two looks at who waits, while every step leaves more of the room that is promised."""


class Server:
    """A server, its clock, its pages and the gaps between tokens. time: until when it is busy."""

    def __init__(self, clock: StepClock, rules: Rules, shared: Prefixes | None = None) -> None:
        self.clock, self.rules, self.pages = clock, rules, Pages(rules, shared)
        self.time = 0.0
        self.promises = Promises(rules, rules.admission) if rules.admission else None
        self.waiting = Waiting(rules, self.pages, self.promises)
        self.reading: deque[Running] = deque()
        self.passing: list[tuple[float, int, Running]] = []
        self.decoding = Decoding(rules)
        self.longest = 0
        self.holding = Holding(rules.hold, rules.budget) if rules.hold else None
        self.gaps = Gaps()
        self.preemptions = 0
        self.gave_way = False
        self.looks, self.laid, self.newest = 0, 0, -1
        self.busy = {"decoding": 0.0, "reading": 0.0}

    def add(self, request: Request, read: int = 0, left: int | None = None) -> bool:
        """Queue a request, `read` tokens of whose prompt are in the cache already and of which `left` tokens are still
        to come; False where it can never fit."""
        if self.rules.pages(request.input + request.output) > self.rules.blocks:
            request.refused = True
            return False
        self.newest, self.longest = self.laid, max(self.longest, request.output)
        own = request.output if left is None else left
        self.waiting.add(Running(request, request.input, read, own, came=self.laid, latest=request.first or 0.0))
        return True

    @property
    def load(self) -> int:
        """Requests that are here."""
        return len(self.waiting) + self.inside

    @property
    def inside(self) -> int:
        """Requests that were let in: read, on their way through later stages of a pipeline, or that decode."""
        return len(self.reading) + len(self.passing) + len(self.decoding)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.decoding.heap or self.waiting.queue or self.reading or self.passing)

    def advance(self, until: float) -> list[Request]:
        """Run one step with prompts in it, or as many without as pass before the next event or `until`; those that
        finished.

        Nobody is let in beside a step for which somebody had to give way (vLLM 0.15, `Scheduler.schedule`): the pages
        that came free are those that the others are about to take.
        """
        self.laid += 1
        done = self._through() if self.passing else []
        if not self.gave_way and (self.decoding.steps >= self.looks or not self.decoding):
            if self.waiting:
                self._let_in()
            self.looks = self.decoding.steps + self.rules.polls
        self.gave_way = False
        held = self._held() if self.reading else 0
        if self.reading and not held:
            return done + self._mixed_step()
        if self.passing and not self.decoding:
            self.time = max(self.time, self.passing[0][0])
            self.looks = self.decoding.steps  # no step was made since the last look, and others may have come
            return done + self._through()
        return done + self._plain_steps(min(until, self.passing[0][0]) if self.passing else until, held)

    def _through(self) -> list[Request]:
        """First tokens of prompts that have meanwhile come through the last stage; the requests that this finishes."""
        done = list[Request]()
        while self.passing and self.passing[0][0] <= self.time:
            at, _, one = heapq.heappop(self.passing)
            done += self._begun(one, at)
        return done

    def _let_in(self) -> None:
        """Let in who may: to be read, or to decode. An engine that lays a step while another runs knew of nobody who
        came meanwhile, unless it stood still."""
        known = self.laid - (self.rules.ahead and self.inside > 0)
        for one in self.waiting.let_in(known, self.inside, self._promised()):
            if one.request.scheduled is None:
                one.request.scheduled = self.time
            if one.read < one.prompt:
                self.reading.append(one)
            else:
                self._decodes(one)  # its keys and values are here: it is a token as any other's, and no prompt

    def _promised(self) -> int:
        """Pages that are promised to who runs."""
        if self.promises is None:
            return 0
        if not self.inside:
            self.promises.rest()
        read = (*self.reading, *(one for _, _, one in self.passing))
        return self.promises.to_all(read, self.decoding, self.longest)

    def _pieces(self) -> list[tuple[Running, Piece]]:
        """What of the prompts the next step reads."""
        beside = math.ceil(len(self.decoding) * self.clock.drafted) if self.rules.mixed else 0
        return pieces_of(self.reading, self.rules, self.rules.budget - beside)

    def _held(self) -> int:
        """Steps for which prompts are held back from now on, while nobody comes or leaves."""
        if self.holding is None:
            return 0
        pieces, decoding = self._pieces(), len(self.decoding)
        drafted = math.ceil(decoding * self.clock.drafted)
        return self.holding.left(len(pieces), sum(piece.tokens for _, piece in pieces) + drafted, decoding)

    def _mixed_step(self) -> list[Request]:
        """A step that reads prompts; who decodes gets a token where the engine lets both in one step."""
        decodes = self.rules.mixed and bool(self.decoding)
        self.looks = self.decoding.steps
        if decodes and not self._room_for_a_step():
            return []
        pieces = self._pieces()
        n = len(self.decoding) if decodes else 0
        if not pieces:
            return self._plain_steps(self.time)
        step = n, self.decoding.mean_context if n else 0.0, [piece for _, piece in pieces]
        seconds, way = self.clock.seconds(*step), self.clock.way(*step)
        self.time += seconds
        self.busy["reading"] += seconds
        done = self._decoded(1, seconds) if decodes else []
        after = sum(piece.tokens for _, piece in pieces)
        each = seconds / after
        for one, piece in pieces:
            one.read += piece.tokens
            after -= piece.tokens
            if piece.last:
                self.reading.remove(one)
                # One batch follows another into a pipeline: the first of a step's prompts are through before the last.
                heapq.heappush(self.passing, (self.time + way - (way > 0) * after * each, one.request.number, one))
        return done + self._through()

    def _begun(self, one: Running, now: float) -> list[Request]:
        """The first token of a prompt that is read, and after it those that are left."""
        request = one.request
        if request.first is None:
            request.first = now
        else:
            self.gaps.again(one, now)
        one.latest = now
        one.left -= 1
        if one.left == 0:
            self.pages.give_back(one, one.prompt + 1)
            request.last = now
            return [request]
        self._decodes(one)
        return []

    def _decodes(self, one: Running) -> None:
        """A sequence decodes from now on."""
        self.decoding.begin(one)
        self.gaps.begin(one)
        self.pages.begin(one)

    def _plain_steps(self, until: float, held: int = 0) -> list[Request]:
        """Steps without prompts, until somebody finishes, the cache may be full, or `until` has passed. held: for how
        many of them there are prompts that are held back."""
        n = len(self.decoding.heap)
        if not n:
            return []
        context = self.decoding.mean_context
        count = min(self.decoding.first_ends, self._steps_with_room())
        if count < 1:
            return []
        each, grows = self.clock.seconds(n, context), self.rules.accepted
        if self.waiting and self.promises and self.promises.falls:
            count = min(count, PROMISED)
        if self.rules.polls > 1:
            count = min(count, max(self.looks - self.decoding.steps, 1))
        if self.rules.ahead and self.newest == self.laid - 1:
            count = 1  # who came during the last step is let in after this one
        elif until < math.inf:
            count = max(1, min(count, math.ceil((until - self.time) / each)))
        if held and self.holding:
            count = min(count, held)
            self.holding.passed(count)
        last = self.clock.seconds(n, context + (count - 1) * grows) if count > 1 else each
        seconds = count * (each + last) / 2
        self.time += seconds
        self.busy["decoding"] += seconds
        return self._decoded(count, seconds)

    def _steps_with_room(self) -> int:
        """Steps that surely find room; 0 where somebody had to give way and all must be asked again."""
        free = self.rules.blocks - self.pages.held
        steps = int(free // len(self.decoding) * self.rules.block / self.rules.accepted)
        return steps or (1 if self._room_for_a_step() else 0)

    def _room_for_a_step(self) -> bool:
        """Whether the next step finds pages for its tokens. Otherwise the youngest gives way."""
        if self.pages.room_for(self.decoding):
            return True
        self._preempt()
        return False

    def _preempt(self) -> None:
        """Give up the cache of the sequence that came last: it is read again when there is room (recomputation)."""
        one, now = self.decoding.youngest_out()
        self.gaps.give_way(one)
        self.pages.end(one, now)
        made = min(max(now - one.context, 0), one.left - 1)
        one.prompt, one.read, one.left = now, 0, one.left - made
        one.request.preempted += 1
        self.preemptions += 1
        self.gave_way = True
        if self.promises:
            self.promises.gave_way(len(self.decoding), self.decoding.made, self.decoding.left)
        self.waiting.back(one)

    def _decoded(self, count: int, seconds: float) -> list[Request]:
        """Every sequence that decodes has got tokens of so many steps."""
        self.pages.grow(self.decoding, count)
        if self.promises:
            self.promises.passed(count)
        self.gaps.passed(self.time, count, seconds / count, len(self.decoding.heap))
        done = self.decoding.passed(count)
        for one, tokens in done:
            self.pages.end(one, tokens)
            one.request.last = self.time
        return [one.request for one, _ in done]
