"""What is asked of a model in one forward pass: how many sequences, new tokens and cached tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from calc import checks
from calc.sizes import Size, exact_div, floor_div, is_exactly, minimum
from calc.spec.pairs import twice_seen, twice_seen_in_chunks, twice_seen_last, twice_since_pool
from calc.spec.routing import USUAL, read_routing

Scores = Literal["full", "causal-half", "causal-exact"]
SCORES: tuple[Scores, ...] = get_args(Scores)
Experts = Literal["grouped", "loop", "batched"]
EXPERTS: tuple[Experts, ...] = get_args(Experts)


@dataclass(frozen=True, slots=True)
class Load:
    """`batch` sequences of `seq` new tokens, each with `context` tokens already in the cache.

    batch: 0 for a tower whose work is done. decode: the new token continues a sequence: encoders have run and their
        keys and values are cached. absorbed: latent attention reads latents themselves and expands none of them.
    mtp: whether the modules that predict further tokens run too.
    source: length of the encoder's input for each sequence (tokens, or frames of audio); None: what the encoder is
        made for, or where it has no length of its own, `usual_source`, or where that is None too, `seq`.
    vectors: how many vectors the front makes of one of seq (a trajectory's step has three); caches grow by as many.
    routing: how evenly tokens choose experts (`calc.spec.routing`). experts: how their products run
        (`calc.spec.run.execution`).
    document: tokens of a document, where a sequence holds several and attention stays within each.
    images: pictures that a vision tower reads beside the text; image: their height and width in pixels, None for the
        size the model is made for.

    scores: how a causal layer's query-key pairs are counted. `full` is every pair of the square, as eager attention
        executes it; `causal-half` half the square; `causal-exact` the pairs the mask keeps.
    Errors: Refused for what is no size (see `calc.checks.size`) and for other words. Integer arrays become float64.
    """

    batch: Size = 1
    seq: Size = 1
    context: Size = 0
    scores: Scores = "full"
    decode: bool = False
    absorbed: bool = False
    mtp: bool = False
    source: Size | None = None
    usual_source: Size | None = None
    vectors: int = 1
    images: Size = 0
    image: tuple[Size, Size] | None = None
    routing: str = USUAL
    experts: Experts = "grouped"
    document: Size | None = None

    def __post_init__(self) -> None:
        checks.word("scores", self.scores, SCORES)
        read_routing(self.routing)
        checks.word("experts", self.experts, EXPERTS)
        for name, least in (("batch", 0), ("seq", 1), ("context", 0), ("images", 0)):
            object.__setattr__(self, name, checks.size(name, getattr(self, name), least))
        for name in ("source", "usual_source", "document"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, checks.size(name, getattr(self, name)))

    @property
    def tokens(self) -> Size:
        """New tokens in the whole batch."""
        return self.batch * self.seq

    @property
    def by_document(self) -> Load:
        """What attention has of it: each document as a sequence of its own."""
        if self.document is None:
            return self
        batch = self.batch * exact_div(self.seq, self.document)
        return replace(self, batch=batch, seq=self.document, document=None)

    def cached(self, window: Size | None) -> Size:
        """Cached tokens of one sequence that a layer with this window still has beside the new ones."""
        # An empty cache has nothing to cut off; asking would leave Min(0, window - 1) in formulas.
        empty = is_exactly(self.context, 0)
        return self.context if window is None or empty else minimum(self.context, window - 1)

    def twice_pairs(self, window: Size | None, causal: bool = True, chunked: bool = False) -> Size:
        """Twice the query-key pairs of one head and one sequence (twice, so that half a square stays a whole number).

        A layer with a window keeps `window - 1` cached keys beside the new ones. In a full count the new tokens see
        one another whatever the window, since a dense kernel multiplies the whole square and masks afterwards.
        chunked: the window is a chunk that starts at a multiple of its length; tokens see only those of their own.
        """
        seq, cached = self.seq, self.cached(window)
        if self.scores == "full" or not causal:
            return 2 * seq * (cached + seq)
        exact = {"causal-half": 0, "causal-exact": 1}[self.scores]
        if chunked:
            before, after = self.context, self.context + seq
            return twice_seen_in_chunks(after, window, exact) - twice_seen_in_chunks(before, window, exact)
        if exact and window is not None:
            return twice_seen_last(seq, cached + seq, window)
        return 2 * seq * cached + twice_seen(seq, window, exact)

    def twice_pooled(self, pool: Size, top_k: Size) -> Size:
        """Twice the pairs of one head and one sequence where a token sees whole pools, of `top_k` tokens together at
        most, and those of its own incomplete pool, which only an exact count knows."""
        if self.scores != "causal-exact":
            return self.twice_pairs(None)
        last = twice_since_pool(self.context + self.seq, pool) - twice_since_pool(self.context, pool)
        return pool * self.twice_entries(pool, exact_div(top_k, pool)) + last

    def twice_entries(self, stride: Size, top_k: Size | None) -> Size:
        """Twice the pairs of one head's queries and entries, one entry for each whole `stride` of a sequence's tokens.

        top_k: how many entries a query sees at most, which only an exact count knows.
        """
        before, after = self.context, self.context + self.seq
        if self.scores == "causal-exact":
            return _twice_complete(after, stride, top_k) - _twice_complete(before, stride, top_k)
        whole = floor_div(after, stride)
        if self.scores == "full":
            return 2 * self.seq * whole
        return self.seq * (whole + floor_div(before, stride))


def _twice_complete(tokens: Size, stride: Size, top_k: Size | None) -> Size:
    """Twice the sum of floor(i / stride), at most top_k, over the tokens i = 1, 2, … of a sequence from its start."""
    few = tokens if top_k is None else minimum(tokens, stride * top_k)
    whole = floor_div(few, stride)
    hidden = 0 if top_k is None else 2 * top_k * (tokens - few)
    return stride * whole * (whole - 1) + 2 * whole * (few - stride * whole + 1) + hidden
