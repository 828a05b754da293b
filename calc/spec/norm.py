"""Norms over vectors, and over queries and keys."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.fields import Node


class Norm(Node):
    """LayerNorm (Ba et al. 2016) or RMSNorm (Zhang & Sennrich 2019) over a vector.

    kind: of a `batchnorm` (Ioffe & Szegedy 2015, arXiv:1502.03167) each value is normed over all vectors of a batch.
    affine: False for norms without weights (OLMo). bias: an added vector; RMSNorm has none.
    eps: added to the variance. unit_offset: what is multiplied is one plus the weight (Gemma).
    wide: an RMSNorm's weight multiplies in fp32, before the result is narrowed (OLMo 2, gpt-oss); False: after (Llama).
    widened: what is divided is in fp32 (Llama); False: its variance alone is computed of a copy in fp32 (T5).
    as_weight: what an RMSNorm's weight multiplies is narrowed to the weight's format, not to that of what is read
    (diffusers).
    by_power: an RMSNorm's factor is a power of the mean square, which is kept beside it, and its weight a copy in fp32
    (Gemma 3n's ears).
    """

    kind: Literal["layernorm", "rmsnorm", "batchnorm"] = "rmsnorm"
    affine: bool = True
    bias: bool = False
    eps: float = Field(default=1e-5, ge=0)
    unit_offset: bool = False
    wide: bool = False
    widened: bool = True
    as_weight: bool = False
    by_power: bool = False

    @model_validator(mode="after")
    def _biased(self) -> Self:
        if self.bias and (self.kind == "rmsnorm" or not self.affine):
            raise Refused("bias", "false for a norm that has none (rmsnorm, or without affine)", True)
        if self.kind == "batchnorm" and (not self.bias or self.unit_offset):
            raise Refused("bias", "true, and no unit_offset, of a norm over a batch", self.bias)
        if self.by_power and (self.kind != "rmsnorm" or not (self.wide and self.widened) or self.unit_offset):
            raise Refused("by_power", "false, but of an rmsnorm that is wide and has no unit_offset", True)
        return self


class QkNorm(Node):
    """A norm on queries and keys before their product (Dehghani et al. 2023).

    span: what one norm weight covers: `head` one vector of d_head shared by all heads (Qwen3), `heads` a vector of
        d_head for each head (Command R), `each` the same, each head's LayerNorm a kernel of its own (StableLM), `all`
        one vector over all heads together (OLMo 2).
    turned: the norm reads what rotary positions have turned (Llama 4); False: what they will turn.
    """

    norm: Norm = Norm()
    span: Literal["head", "heads", "each", "all"] = "head"
    turned: bool = False

    @model_validator(mode="after")
    def _of_kernels(self) -> Self:
        if self.span == "each" and (self.norm.kind != "layernorm" or self.norm.unit_offset or not self.norm.affine):
            raise Refused("span", "each of LayerNorms alone, whose weights are as they are", self.span)
        return self
