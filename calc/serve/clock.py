"""How long a step of one server takes, asked one step at a time: what the simulation runs on."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from calc.serve.rank import Rank
from calc.serve.step import Rates, StepLoad, step_time
from calc.serve.work import lengths


class Line:
    """A curve read between its points, quickly, one length at a time."""

    def __init__(self, values: Sequence[float]) -> None:
        self.places = lengths().tolist()
        self.values = list(map(float, values))

    def __call__(self, tokens: float) -> float:
        at = min(bisect_right(self.places, tokens), len(self.places) - 1)
        left, right = self.places[at - 1], self.places[at]
        low, high = self.values[at - 1], self.values[at]
        return low + (high - low) * (tokens - left) / (right - left)


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens of one prompt that a step reads: the first of them stands behind `start` others. last: whether the prompt
    ends with it."""

    start: int
    tokens: int
    last: bool


class StepClock:
    """Seconds of steps of one server. drafted: tokens that each sequence runs a step, where something guesses ahead."""

    def __init__(self, rank: Rank, rates: Rates, drafted: float = 1.0) -> None:
        self.rank, self.rates, self.drafted = rank, rates, drafted
        self.cache = Line(rank.decode_bytes.tolist())
        self.decoding = Line(rank.decode_flops.tolist())
        self.prompts = Line(rank.prompt_flops.tolist())

    def seconds(self, decoding: int, context: float, pieces: Sequence[Piece] = ()) -> float:
        """Of a step with so many sequences that decode, `context` tokens in the cache of each in the mean, and pieces
        of prompts; all of them spread evenly over ranks of attention."""
        ranks = self.rank.dp
        own = max(decoding / ranks, 1.0) if decoding else 0.0
        tokens, flops, sampled = 0, 0.0, 0
        for piece in pieces:
            tokens += piece.tokens
            flops += self.prompts(piece.start + piece.tokens) - self.prompts(piece.start)
            sampled += piece.last
        # Prompts do not divide: a rank that reads one holds up the others.
        share = 1 / min(ranks, len(pieces)) if pieces else 0.0
        load = StepLoad(
            own,
            tokens * share,
            own * self.cache(context) if decoding else 0.0,
            own * self.drafted * self.decoding(context) if decoding else 0.0,
            flops * share,
            own * self.drafted + sampled * share,
            self.drafted,
        )
        return step_time(self.rank, load, self.rates).total
