"""Attention within blocks of a sequence, and over sums of its tokens."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from calc.errors import Refused
from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm
from calc.spec.positions import Buckets


class BlockAttention(Node):
    """Local attention, or transient global one (LongT5: Guo et al. 2022, arXiv:2112.07916, sections 3.1 and 3.2).

    A token sees those less than `block` away, on both sides: blocks of that length are multiplied with themselves and
    both blocks beside them, and what is too far is hidden. The last block is filled up, and what fills it is computed.
    summary: every so many tokens are summed up, and all tokens see the normed sums too, whose keys and values come out
    of the same matrices; tokens left over at the end have no sum of their own. None: there are none. norm: of the sums.
    buckets: learned numbers for distances, which all layers share; distances to sums have a table of their own.
    """

    symbols: ClassVar[dict[str, str]] = {"block": "block_length", "summary": "summary_length"}
    kind: Literal["block_attention"] = "block_attention"
    n_heads: Dim
    d_head: Dim
    block: Dim
    summary: Dim | None = None
    norm: Norm = Norm()
    buckets: Buckets = Buckets()

    @property
    def causal(self) -> bool:
        """Tokens see those to come."""
        return False

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if not self.buckets.shared:
            raise Refused("buckets.shared", "true, for attention in blocks", False)
        return self
