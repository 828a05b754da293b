"""What is asked of a model in one forward pass: how many sequences, new tokens and cached tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calc.sizes import Size, maximum, minimum

Scores = Literal["full", "causal-half", "causal-exact"]


@dataclass(frozen=True, slots=True)
class Load:
    """`batch` sequences of `seq` new tokens, each with `context` tokens already in the cache.

    decode: the new token continues a sequence: encoders have run and their keys and values are cached.
    source: length of the encoder's input for each sequence (tokens, or frames of audio); None: what the encoder is
        made for, or where it has no length of its own, `usual_source`, or where that is None too, `seq`.
    images: pictures that a vision tower reads beside the text; image: their height and width in pixels, None for the
        size the model is made for.

    scores: how a causal layer's query-key pairs are counted. `full` is every pair of the square, as eager attention
        executes it; `causal-half` half the square; `causal-exact` the pairs the mask keeps.
    """

    batch: Size = 1
    seq: Size = 1
    context: Size = 0
    scores: Scores = "full"
    decode: bool = False
    source: Size | None = None
    usual_source: Size | None = None
    images: Size = 0
    image: tuple[Size, Size] | None = None

    @property
    def tokens(self) -> Size:
        """New tokens in the whole batch."""
        return self.batch * self.seq

    def twice_pairs(self, window: Size | None, causal: bool = True) -> Size:
        """Twice the query-key pairs of one head and one sequence (twice, so that half a square stays a whole number).

        A layer with a window keeps `window - 1` cached keys beside the new ones. In a full count the new tokens see
        one another whatever the window, since a dense kernel multiplies the whole square and masks afterwards.
        """
        seq = self.seq
        cached = self.context if window is None else minimum(self.context, window - 1)
        if self.scores == "full" or not causal:
            return 2 * seq * (cached + seq)
        hidden = 0 if window is None else maximum(seq - window, 0)
        exact = 1 if self.scores == "causal-exact" else 0
        square = seq * (seq + exact) - hidden * (hidden + exact)
        return 2 * seq * cached + square
