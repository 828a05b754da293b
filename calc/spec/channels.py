"""Channel mixers: what acts on each token alone."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from calc.errors import Refused
from calc.spec.fields import Dim, Node

Activation = Literal["gelu", "gelu_new", "gelu_tanh", "relu", "relu2", "silu", "quick_gelu", "gelu_fast"]


class Mlp(Node):
    """The feed-forward block. d_ff: None means 4 * d_model. gated: act(gate(x)) * up(x) (Shazeer 2020)."""

    kind: Literal["mlp"] = "mlp"
    d_ff: Dim | None = None
    gated: bool = False
    bias: bool = False
    fused: bool = False
    activation: Activation = "gelu"


class Moe(Node):
    """A mixture of experts (Shazeer et al. 2017): a router sends each token to `top_k` of `n_experts` MLPs.

    d_expert: the width of one routed expert. d_shared: the width of all shared experts together, which every token
    visits (None: there are none). shared_gate: a learned sigmoid scales the shared experts' output (Qwen2-MoE).
    """

    kind: Literal["moe"] = "moe"
    n_experts: Dim
    top_k: Dim
    d_expert: Dim
    d_shared: Dim | None = None
    shared_gate: bool = False
    gated: bool = True
    bias: bool = False
    router_bias: bool = False
    activation: Activation = "silu"

    @model_validator(mode="after")
    def _routing(self) -> Self:
        if self.top_k > self.n_experts:
            raise Refused("top_k", f"at most n_experts = {self.n_experts}", self.top_k)
        return self
