"""Attention within a band around each token."""

from __future__ import annotations

from typing import ClassVar, Literal

from calc.spec.fields import Dim, Node


class BandAttention(Node):
    """Each token sees `reach` others on both sides (Longformer: Beltagy et al. 2020, arXiv:2004.05150, section 3.2).

    Chunks of 2 * reach tokens, each overlapping half of the next, are multiplied with themselves, and what is too far
    is hidden, so that sequences have to be whole chunks, which their front sees to (`multiple` of Embedding). Every
    projection has a bias. Further projections of queries, keys and values are there for tokens that a task lets see all
    others, and that all others see; without such tokens, as here, nothing reads them.
    """

    symbols: ClassVar[dict[str, str]] = {"reach": "band_reach"}
    kind: Literal["band_attention"] = "band_attention"
    n_heads: Dim
    d_head: Dim
    reach: Dim

    @property
    def causal(self) -> bool:
        """Tokens see those to come."""
        return False
