"""Attention of chunks of sound over what stands beside them."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.fields import Dim, Node


class ChunkAttention(Node):
    """Queries of one chunk of a sequence over its keys and values, those of `before` steps ahead of it and of `after`
    steps behind it, with vectors of distances (Gemma 3n's ears: the Universal Speech Model, Zhang et al. 2023,
    arXiv:2303.01037; transformers 5.23, models/gemma3n/modeling_gemma3n.py, Gemma3nAudioAttention).

    Sequences are filled up to whole chunks. Each step sees itself, `before` steps ahead of it and `after` behind it;
    scores of the other keys are multiplied and hidden. Sinusoids of these before + after + 1 distances are projected
    and multiplied with queries too. Each number of a query's head has a factor that is trained, the softplus of a
    number. softcap: scores pass c * tanh(x / c). No projection has a bias.
    """

    kind: Literal["chunk_attention"] = "chunk_attention"
    n_heads: Dim
    d_head: Dim
    chunk: int = Field(gt=0, le=2**20)
    before: int = Field(ge=0, le=2**20)
    after: int = Field(default=0, ge=0, le=2**20)
    softcap: float = Field(default=50.0, gt=0)

    @property
    def causal(self) -> bool:
        """What it hears is there as a whole, and nothing goes on with it."""
        return False

    @property
    def keys(self) -> int:
        """How many a chunk reads."""
        return self.before + self.chunk + self.after

    @property
    def distances(self) -> int:
        """How many a step tells apart."""
        return self.before + self.after + 1

    @model_validator(mode="after")
    def _beside(self) -> Self:
        if self.before + self.after == 0:
            raise Refused("before", "some steps, before or after, that a chunk reads beside its own", 0)
        return self
