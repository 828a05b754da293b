"""Mixture of experts: router, routed experts, shared experts."""

from __future__ import annotations

from calc.blocks.linear import elementwise, linear
from calc.blocks.mlp import mlp
from calc.op import Op, Part
from calc.sizes import Size
from calc.spec import Mlp, Moe


def moe(spec: Moe, d_model: Size, tokens: Size) -> Part:
    """Router, `n_experts` MLPs of which each token visits exactly `top_k`, and shared experts that all tokens visit.

    Dropless: no token exceeds a capacity, so the experts together do the work of tokens * top_k tokens
    (Shazeer et al. 2017; counted as in Mixtral, Jiang et al. 2024).
    """
    expert = Mlp.model_construct(d_ff=spec.d_expert, gated=spec.gated, bias=spec.bias, activation=spec.activation)
    routed = mlp(expert, d_model, tokens * spec.top_k, component="routed_expert")
    body: list[Part | Op] = [
        linear("router", tokens, d_model, spec.n_experts, "router", bias=spec.router_bias),
        Part("experts.{}", routed.body, copies=spec.n_experts, active=spec.top_k),
        elementwise("combine", "routed_expert"),
    ]
    if spec.d_shared is not None:
        shared = Mlp.model_construct(d_ff=spec.d_shared, gated=spec.gated, bias=spec.bias, activation=spec.activation)
        body.append(mlp(shared, d_model, tokens, name="shared_expert", component="shared_expert"))
        if spec.shared_gate:
            body.append(linear("shared_expert_gate", tokens, d_model, 1, "shared_expert"))
            body.append(elementwise("shared_scale", "shared_expert"))
    return Part("moe", tuple(body))
