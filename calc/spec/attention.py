"""Norms and attention over keys and values of their own heads."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from calc.errors import Refused
from calc.spec.fields import Dim, Node


class Norm(Node):
    """LayerNorm (Ba et al. 2016) or RMSNorm (Zhang & Sennrich 2019) over a vector.

    affine: False for norms without weights (OLMo). bias: an added vector; RMSNorm has none.
    """

    kind: Literal["layernorm", "rmsnorm"] = "rmsnorm"
    affine: bool = True
    bias: bool = False


class QkNorm(Node):
    """A norm on queries and keys before their product (Dehghani et al. 2023).

    span: what one norm weight covers: `head` one vector of d_head shared by all heads (Qwen3), `heads` a vector of
        d_head for each head (StableLM, Command R), `all` one vector over all heads together (OLMo 2).
    """

    norm: Norm = Norm()
    span: Literal["head", "heads", "all"] = "head"


class Attention(Node):
    """Self-attention: multi-head (Vaswani et al. 2017), multi-query (Shazeer 2019), grouped-query (Ainslie 2023).

    n_kv_heads: None means n_heads. d_head: None means d_model / n_heads.
    window: each token attends to the last `window` tokens, itself included; None means all.
    sinks: a learned logit a head that takes part in the softmax (gpt-oss). softcap: logits pass c * tanh(x / c).
    fused: query, key and value projections are one matrix. k_bias: whether keys have a bias; None: as qkv_bias.
    d_value: width of a value head; None means d_head. causal: a token sees only those before it.
    """

    kind: Literal["attention"] = "attention"
    n_heads: Dim
    n_kv_heads: Dim | None = None
    d_head: Dim | None = None
    d_value: Dim | None = None
    causal: bool = True
    qkv_bias: bool = False
    k_bias: bool | None = None
    out_bias: bool = False
    fused: bool = False
    qk_norm: QkNorm | None = None
    window: Dim | None = None
    softcap: float | None = None
    sinks: bool = False
    position: Literal["rope", "alibi", "none"] = "rope"

    @model_validator(mode="after")
    def _groups(self) -> Self:
        if self.n_kv_heads is not None and self.n_heads % self.n_kv_heads:
            raise Refused("n_kv_heads", f"a divisor of n_heads = {self.n_heads}", self.n_kv_heads)
        return self
