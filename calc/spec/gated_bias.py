"""Attention whose numbers for distances pass a gate of each query's own."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from calc.errors import Refused
from calc.spec.fields import Dim, Node
from calc.spec.positions import Buckets


class GatedBias(Node):
    """Learned numbers for buckets of distances, times a gate that each head makes of the vector that the query is
    projected from (WavLM: Chen et al. 2022, arXiv:2110.13900).

    All tokens see one another, and every projection has a bias. One small matrix and one number for each head make the
    gate of the head's share of a vector. buckets: their table is one for all layers.
    """

    kind: Literal["gated_bias"] = "gated_bias"
    n_heads: Dim
    d_head: Dim
    buckets: Buckets = Buckets(n_buckets=320, max_distance=800)

    @property
    def causal(self) -> bool:
        """Tokens see those to come."""
        return False

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if not self.buckets.shared:
            raise Refused("buckets.shared", "true, for numbers of distances that pass a gate", False)
        return self
