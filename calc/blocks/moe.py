"""Mixture of experts: router, routed experts, shared experts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from calc.blocks.linear import elementwise, linear, norm, residual
from calc.blocks.mlp import mlp
from calc.functions import Matmul
from calc.op import Op, Part, Weight
from calc.sizes import Size, ceil_div, maximum, minimum, quotient
from calc.spec import Mlp, Moe


def moe(spec: Moe, d_model: Size, tokens: Size) -> Part:
    """Router, `n_experts` MLPs of which each token visits exactly `top_k`, and shared experts that all tokens visit.

    Without a capacity the experts together do the work of tokens * top_k tokens (Shazeer et al. 2017; counted as in
    Mixtral, Jiang et al. 2024). With one they do that of all the room there is, filled or not: n_experts times
    ceil(capacity_factor * tokens * top_k / n_experts) (Fedus et al. 2021, equation 3).
    """
    expert = _mlp(spec, spec.d_expert)
    width = d_model if spec.d_latent is None else spec.d_latent
    visits = slots(spec, tokens * spec.top_k)
    routed = mlp(expert, width, visits, component="routed_expert")
    moved = tokens * spec.top_k * width
    body: list[Part | Op] = [
        *_router(spec, d_model, tokens),
        *([] if spec.d_latent is None else [linear("latent_down", tokens, d_model, spec.d_latent, "mlp")]),
        elementwise("dispatch", "routed_expert", "dispatch", tokens * width, moved, from_chain=0),
        Part("experts.{}", _shared_out(spec, routed.body, visits), copies=spec.n_experts, active=spec.top_k),
        elementwise("combine", "routed_expert", "combine", moved, tokens * width),
        *([] if spec.d_latent is None else [linear("latent_up", tokens, spec.d_latent, d_model, "mlp")]),
    ]
    if spec.d_shared is not None and spec.dense_norm is not None:
        names = ("dense_post_norm", "routed_norm", "routed_post_norm")
        norms = [norm(name, spec.dense_norm, (d_model,), tokens, follows=name != "routed_norm") for name in names]
        body = [mlp(_mlp(spec, spec.d_shared), d_model, tokens), *norms[:2], *body, norms[2]]
        body.append(residual("shared_add", tokens, d_model))
    elif spec.d_shared is not None:
        shared = _mlp(spec, spec.d_shared)
        body.append(mlp(shared, d_model, tokens, name="shared_expert", component="shared_expert"))
        if spec.shared_gate:
            one = tokens * d_model
            body.append(linear("shared_expert_gate", tokens, d_model, 1, "shared_expert"))
            scale = elementwise("shared_scale", "shared_expert", "scale", one + tokens, one, from_chain=0, to_chain=one)
            body.append(scale)
        body.append(residual("shared_add", tokens, d_model))
    return Part("moe", tuple(body))


def _mlp(spec: Moe, d_ff: Size) -> Mlp:
    return Mlp.model_construct(
        d_ff=d_ff, gated=spec.gated, bias=spec.bias, activation=spec.activation, clamp=spec.clamp
    )


def _shared_out(spec: Moe, body: tuple[Part | Op, ...], visits: Size) -> tuple[Part | Op, ...]:
    """The same ops with their work shared out among experts, and the weights of as many as visits can reach at most.

    With room for a number of tokens every expert runs.
    """
    reached = minimum(spec.n_experts, visits) if spec.capacity_factor is None else spec.n_experts

    # Of one expert that is reached, visits / reached: never less than one where there is a visit at all.
    rows = quotient(visits, spec.n_experts)
    rows = maximum(rows, minimum(visits, 1)) if spec.capacity_factor is None else rows

    def shared(op: Part | Op) -> Part | Op:
        if not isinstance(op, Op) or not isinstance(op.shape, Matmul):
            return op
        shape = replace(op.shape, m=rows, groups=reached)
        moved = reached * op.weights_read
        return replace(op, shape=shape).moving(weight_reads=moved, weight_grads=moved)

    return tuple(map(shared, body))


def _router(spec: Moe, d_model: Size, tokens: Size) -> list[Op]:
    """The product that scores every expert, and the scales around it where there are any."""
    scores = linear("router", tokens, d_model, spec.n_experts, "router", bias=spec.router_bias)
    chosen = tokens * spec.top_k
    frozen = (Weight("correction", (spec.n_experts,), "router", trainable=False),) if spec.frozen_correction else ()
    route = elementwise("route", "router", "route", tokens * spec.n_experts, 2 * chosen, weights=frozen)
    if not spec.scaled_router:
        return [scores, route]
    scale = Weight("router_scale", (d_model,), "router")
    of_experts = Weight("expert_scale", (spec.n_experts,), "router")
    one = tokens * d_model
    before = elementwise("router_scale", "router", "rmsnorm", one, one, weights=(scale,), from_chain=0)
    after = elementwise("expert_scale", "router", "scale", chosen, chosen, weights=(of_experts,))
    return [before, scores, route, after]


def slots(spec: Moe, visits: Size) -> Size:
    """Tokens that all experts together compute, when tokens make `visits` visits."""
    if spec.capacity_factor is None:
        return visits
    # As a ratio of whole numbers: a binary fraction such as 1.1 would round up past what is meant.
    above, below = Fraction(str(spec.capacity_factor)).as_integer_ratio()
    return spec.n_experts * ceil_div(above * visits, below * spec.n_experts)
