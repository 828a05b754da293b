"""The sequences of a server that get a token in every step."""

from __future__ import annotations

import heapq
import math

from calc.serve.running import Rules, Running


class Decoding:
    """Who decodes, by the step at which each ends. steps: of the server, so far. context: tokens that they have in the
    cache; ends: room that they will have there at their ends, in whole pages."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.heap: list[tuple[int, int, Running]] = []
        self.steps, self.context, self.ends = 0, 0.0, 0

    def __len__(self) -> int:
        return len(self.heap)

    @property
    def mean_context(self) -> float:
        """Tokens that one of them has in the cache."""
        return self.context / len(self.heap)

    @property
    def made(self) -> float:
        """Tokens of their answers, so far."""
        return self.context - sum(one.context - 1 for _, _, one in self.heap)

    @property
    def left(self) -> float:
        """Tokens that they have still to make, to the ends of their last pages."""
        return self.ends - self.context

    @property
    def first_ends(self) -> int:
        """Steps until the first of them ends."""
        return self.heap[0][0] - self.steps

    def begin(self, one: Running) -> None:
        """A sequence whose prompt is in the cache gets a token in every step from now on."""
        one.context, one.begun = one.prompt + 1, self.steps
        one.finish = self.steps + math.ceil(one.left / self.rules.accepted)
        heapq.heappush(self.heap, (one.finish, one.request.number, one))
        self.context += one.context
        self.ends += self.rules.pages(one.end) * self.rules.block

    def passed(self, count: int) -> list[tuple[Running, int]]:
        """So many steps were made: who has ended with them, and the tokens that each has in the cache."""
        before, each = self.steps, self.rules.accepted
        self.steps += count
        if each == 1.0:
            self.context += count * len(self.heap)
        else:
            self.context = float(sum(one.tokens(before + count, each) for _, _, one in self.heap))
        done = []
        while self.heap and self.heap[0][0] <= self.steps:
            _, _, one = heapq.heappop(self.heap)
            done.append((one, self._out(one)))
        return done

    def youngest_out(self) -> tuple[Running, int]:
        """Who came last decodes no more: it, and its tokens in the cache."""
        at = max(range(len(self.heap)), key=lambda i: (self.heap[i][2].request.priority, self.heap[i][1]))
        _, _, one = self.heap.pop(at)
        heapq.heapify(self.heap)
        return one, self._out(one)

    def _out(self, one: Running) -> int:
        tokens = one.tokens(self.steps, self.rules.accepted)
        self.context -= tokens
        self.ends -= self.rules.pages(one.end) * self.rules.block
        return tokens
