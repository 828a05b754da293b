"""How long a step of one server takes, asked one step at a time: what the simulation runs on."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from calc.serve.rank import Rank
from calc.serve.running import Piece
from calc.serve.step import Rates, StepLoad, bound, longer, one_batch, step_time, waiting_of
from calc.serve.work import lengths


class Line:
    """A curve read between its points, quickly, one length at a time."""

    def __init__(self, values: Sequence[float]) -> None:
        self.places = lengths().tolist()
        self.most = len(self.places) - 1
        self.values = list(map(float, values))

    def __call__(self, tokens: float) -> float:
        at = bisect_right(self.places, tokens, hi=self.most)
        left, right = self.places[at - 1], self.places[at]
        low, high = self.values[at - 1], self.values[at]
        return low + (high - low) * (tokens - left) / (right - left)


def both(one: Line, other: Line, tokens: float) -> tuple[float, float]:
    """Two curves read at one length."""
    at = bisect_right(one.places, tokens, hi=one.most)
    left = one.places[at - 1]
    passed, step = tokens - left, one.places[at] - left
    low, base = one.values[at - 1], other.values[at - 1]
    return low + (one.values[at] - low) * passed / step, base + (other.values[at] - base) * passed / step


class Plain(NamedTuple):
    """A step without prompts of so many sequences, but for what depends on their contexts: seconds of the device
    without attention, of the host for the step, and of the host for its sequences while the device works. batch:
    sequences of one rank of attention that one stage of a pipeline works on."""

    device: float
    host: float
    waiting: float
    batch: float


class StepClock:
    """Seconds of steps of one server. drafted: tokens that each sequence runs a step, where something guesses ahead.
    budget: tokens that one batch of a pipeline has at most. plain: what is the same of steps of as many sequences."""

    def __init__(self, rank: Rank, rates: Rates, drafted: float = 1.0, budget: float = math.inf) -> None:
        self.rank, self.rates, self.drafted, self.budget = rank, rates, drafted, budget
        self.plain: dict[int, Plain] = {}
        self.cache = Line(rank.decode_bytes.tolist())
        self.decoding = Line(rank.decode_flops.tolist())
        self.prompts = Line(rank.prompt_flops.tolist())

    def seconds(self, decoding: int, context: float, pieces: Sequence[Piece] = ()) -> float:
        """Of a step with so many sequences that decode, `context` tokens in the cache of each in the mean, and pieces
        of prompts; all of them spread evenly over ranks of attention."""
        if decoding and not pieces and not self.rank.drafting:
            return self._plain_seconds(decoding, context)
        return step_time(self.rank, self._load(decoding, context, pieces), self.rates).total

    def way(self, decoding: int, context: float, pieces: Sequence[Piece]) -> float:
        """From the end of such a step until the last batch of its prompts is through the stages of a pipeline that come
        after the first: each takes as long for it as one of the steps in which all stages have such a batch."""
        stages = self.rank.pp
        if stages == 1:
            return 0.0
        load = self._load(decoding, context, pieces)
        batches = stages * min(self.budget * self.rank.dp / sum(piece.tokens for piece in pieces), 1.0)
        load = load._replace(prompt=load.prompt * batches, prompt_flops=load.prompt_flops * batches)
        return (stages - 1) / stages * step_time(self.rank, load, self.rates).total

    def _load(self, decoding: int, context: float, pieces: Sequence[Piece]) -> StepLoad:
        ranks = self.rank.dp
        own = max(decoding / ranks, 1.0) if decoding else 0.0
        tokens, flops, sampled = 0, 0.0, 0
        for piece in pieces:
            tokens += piece.tokens
            flops += self.prompts(piece.start + piece.tokens) - self.prompts(piece.start)
            sampled += piece.last
        # Prompts do not divide: a rank that reads one holds up the others.
        readers = min(ranks, max(len(pieces), 1))
        share = 1 / readers
        return StepLoad(
            own,
            tokens * share,
            own * self.cache(context) if decoding else 0.0,
            own * self.drafted * self.decoding(context) if decoding else 0.0,
            flops * share,
            own * self.drafted + sampled * share,
            self.drafted,
            readers,
        )

    def _plain_seconds(self, decoding: int, context: float) -> float:
        """What `step_time` says of a step without prompts and guesses, which most are: the host of its sequences works
        beside the device, and only attention depends on their contexts."""
        found = self.plain.get(decoding)
        if found is None:
            found = self.plain[decoding] = self._plain(decoding)
        computed, read = both(self.decoding, self.cache, context)
        flops, moved = found.batch * self.drafted * computed, found.batch * read
        attention = bound(flops, moved, self.rates.decoding, self.rates.cache)
        return found.host + longer(found.device + attention, found.waiting)

    def _plain(self, decoding: int) -> Plain:
        own = max(decoding / self.rank.dp, 1.0)
        load = StepLoad(own, 0.0, 0.0, 0.0, 0.0, own * self.drafted, self.drafted)
        parts, waiting = step_time(self.rank, load, self.rates), waiting_of(self.rank, load, self.rates)
        device = parts.total - parts.host
        return Plain(
            device, parts.host - (longer(device, waiting) - device), waiting, own * one_batch(own, self.rank.pp)
        )
