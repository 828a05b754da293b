"""Positions: the order of fixed ones, those that attention knows from distances, and what grows with them."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from calc.spec.fields import Dim, Node

Sinusoid = Literal["alternating", "apart", "halves"]
"""Fixed positions: sines in even places and cosines in odd ones, wavelengths 2 pi * 10,000^(2i / width) (Vaswani et al.
2017, section 3.5); the same with all sines before all cosines (Marian); or so with 10,000^(i / (width / 2 - 1)), which
ends at 10,000 itself (Tensor2Tensor's code, which fairseq and Whisper follow)."""
BY_DISTANCE = ("transformer-xl", "transformer-xl-each", "xlnet")
"""Positions whose queries are multiplied with projected distances too."""


class Buckets(Node):
    """A learned number for each head and bucket of distances, added to the scores (Raffel et al. 2020, section 2.1).

    Half of the buckets hold one distance each, the others widen logarithmically up to max_distance; both ends of the
    sequence have their own half where attention is not causal.
    shared: all layers of the stack use one table, which stands beside the layers (T5); False: each has its own (UMT5).
    """

    n_buckets: Dim = 32
    max_distance: int = Field(default=128, gt=0, le=2**31)
    shared: bool = True


class Shaw(Node):
    """A learned vector for each clipped distance, added to keys and to values (Shaw et al. 2018, equations 3 and 4).

    max_distance: distances are clipped to it, so that a table has 2 * max_distance + 1 rows of d_head, which all heads
    share. ahead: those of keys ahead of the query are clipped to this instead (W2v-BERT 2.0); None: to max_distance.
    values: whether values have a table beside the keys' (Huang et al. 2018 leave it out).
    """

    symbols: ClassVar[dict[str, str]] = {"ahead": "max_ahead"}
    max_distance: Dim = 16
    ahead: Dim | None = None
    values: bool = True

    @property
    def rows(self) -> int:
        """Vectors of a table."""
        return self.max_distance + (self.max_distance if self.ahead is None else self.ahead) + 1


class Disentangled(Node):
    """Contents against distances, beside contents against contents (He et al. 2021, arXiv:2006.03654, section 3.1).

    A table beside the layers has 2 * n_distances learned vectors of d_model, for distances from -n_distances on.
    queries: queries are multiplied with these vectors' keys (content to position); keys: keys with their queries
    (position to content). own: each layer has projections of the vectors of its own; False: those of queries and keys
    serve them too. key_bias: of the own projection to keys; that to queries always has one. normed: the table passes
    a norm like the layers'. max_distance: vectors belong to buckets of distances, of which the outer half widen
    logarithmically up to max_distance; None: each has its own. nearest: a short sequence reads only the vectors of its
    own distances.
    """

    n_distances: Dim
    queries: bool = True
    keys: bool = True
    own: bool = True
    key_bias: bool = True
    normed: bool = False
    max_distance: int | None = Field(default=None, gt=0, le=2**31)
    nearest: bool = False


class Temperature(Node):
    """Queries grow with their position p: times 1 + by * ln(1 + floor((p + start) / every)).

    Nakanishi 2025 (arXiv:2501.19399), as in transformers 5.23, models/llama4/modeling_llama4.py.
    start: the number of the first position, 1 in Llama 4 and 0 in Ministral 3.
    """

    every: float = Field(default=8192.0, gt=0)
    by: float = 0.1
    start: int = Field(default=1, ge=0, le=1)
