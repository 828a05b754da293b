"""Mixture of experts: router, routed experts, shared experts."""

from __future__ import annotations

from fractions import Fraction

from calc.blocks.deep_router import deep_router
from calc.blocks.mlp import mlp
from calc.blocks.surroundings import Surroundings
from calc.sizes import Size, ceil_div, maximum, quotient
from calc.spec import Mlp, Moe, Norm
from calc.spec.load import Load
from calc.spec.routing import reached
from calc.trace.primitives.experts import combine, dispatch, expert_scale, route, router_input, shared_scale
from calc.trace.primitives.linear import Spread
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def moe(t: Trace, spec: Moe, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """Router, `n_experts` MLPs of which each token visits exactly `top_k`, and shared experts that all tokens visit.
    Visits to experts that give back what they read cost no product, and are no visits where those that compute count.

    Without a capacity the experts together do the work of tokens * top_k tokens (Shazeer et al. 2017; counted as in
    Mixtral, Jiang et al. 2024). With one they do that of all the room there is, filled or not: n_experts times
    ceil(capacity_factor * tokens * top_k / n_experts) (Fedus et al. 2021, equation 3).
    """
    if spec.d_shared is not None and spec.dense_norm is not None:
        return _dense_and_routed(t, spec, spec.dense_norm, x, x if around.stream is None else around.stream, load)
    y = _routed(t, spec, x, x, load, around)
    if spec.d_shared is None:
        return y
    if spec.late:
        around.late = y
        with t.part("mlp", x, of="mlp") as out:
            dense = mlp(t, _shared(spec, spec.d_shared), x)
            out.append(dense)
        return dense
    with t.module("shared_experts"), t.part("shared_expert", x, of="shared_expert") as out:
        shared = mlp(t, _shared(spec, spec.d_shared), x)
        out.append(shared)
    if spec.shared_gate:
        # A plain parameter in Megatron-Core, as its router's is (core_v0.18.0, moe/shared_experts.py: gate_weight).
        shared = shared_scale(t, shared, t.linear("shared_expert_gate", x, 1, of="shared_expert", never_narrow=True))
    return t.add("shared_add", y, shared)


def _dense_and_routed(t: Trace, spec: Moe, plain: Norm, x: Tensor, stream: Tensor, load: Load) -> Tensor:
    """A dense block on x and experts on the stream as it was before x's norm, each with norms of its own (Gemma 4)."""
    with t.part("mlp", x, of="mlp") as out:
        dense = mlp(t, _expert(spec, spec.d_shared), x)
        out.append(dense)
    dense = t.norm("dense_post_norm", plain, dense)
    routed = _routed(t, spec, t.norm("routed_norm", plain, stream), stream, load, Surroundings())
    return t.add("shared_add", dense, t.norm("routed_post_norm", plain, routed))


def _routed(t: Trace, spec: Moe, x: Tensor, scored: Tensor, load: Load, around: Surroundings) -> Tensor:
    """What the experts make of x, chosen by what the router makes of `scored`."""
    if spec.deep_router is not None:
        scores = deep_router(t, spec.deep_router, scored, spec.routes, around)
    else:
        read = router_input(t, scored) if spec.scaled_router else scored
        bias, wide = spec.router_bias, spec.wide_router
        scores = t.linear("router", read, spec.routes, bias=bias, wide=wide, of="router")
    weights = route(t, spec, scores, scored)
    if spec.scaled_router:
        weights = expert_scale(t, spec, weights, scored)
    d_model, tokens = x.width, x.rows
    if spec.d_latent is not None:
        x = t.linear("latent_down", x, spec.d_latent)
    visits = slots(spec, tokens * spec.visits)
    whole = dispatch(t, spec, x, weights, visits if spec.n_zero is None else tokens * spec.top_k)
    read = whole if spec.n_zero is None else whole.view(visits, whole.width)
    fields = {"copies": spec.n_experts, "active": spec.visits, "expert": True}
    with t.part("experts.{}", read, of="routed_expert", **fields) as out:
        made = mlp(t, _expert(spec, spec.d_expert), read, spread=spread_of(spec, tokens, visits, load))
        out.append(made)
    if spec.n_zero is not None:
        made = t.joined(made, whole, rows=whole.rows, width=made.width)
    y = combine(t, spec, made, weights, tokens, in_turn=load.experts == "loop")
    if spec.sum_bias:
        y = with_bias(t, y)
    return y if spec.d_latent is None else t.linear("latent_up", y, d_model)


def with_bias(t: Trace, y: Tensor) -> Tensor:
    """y plus a learned vector, added behind the experts' sum."""
    return t.add("bias_add", y, t.parameters("bias", (t.weight("bias", y.width),), 1, y.width))


def _expert(spec: Moe, d_ff: Size) -> Mlp:
    how = {"gated": spec.gated, "bias": spec.bias, "activation": spec.activation, "clamp": spec.clamp}
    return Mlp.model_construct(d_ff=d_ff, **how, as_weight=spec.as_weight)


def _shared(spec: Moe, d_ff: Size) -> Mlp:
    """The shared experts, which may be cut and biased otherwise than the routed ones."""
    bias = spec.bias if spec.shared_bias is None else spec.shared_bias
    return _expert(spec, d_ff).model_copy(update={"bias": bias, "clamp": spec.own_clamp})


def spread_of(spec: Moe, tokens: Size, visits: Size, load: Load) -> Spread:
    """How experts share the rows: those that any token reaches have as many each, a fraction perhaps. With room for a
    number of tokens every expert runs; with a copy of its expert for every row each is a product of its own."""
    if load.experts == "batched":
        return Spread(visits, visits, 1, copied=True)
    if spec.capacity_factor is not None:
        return Spread(spec.n_experts, spec.n_experts, quotient(visits, spec.n_experts))
    some = reached(load.routing, spec.n_experts, spec.visits, tokens)
    return Spread(spec.n_experts, some, quotient(visits, maximum(some, 1)))


def slots(spec: Moe, visits: Size) -> Size:
    """Tokens that all experts together compute, when tokens make `visits` visits."""
    if spec.capacity_factor is None:
        return visits
    # As a ratio of whole numbers: a binary fraction such as 1.1 would round up past what is meant.
    above, below = Fraction(str(spec.capacity_factor)).as_integer_ratio()
    return spec.n_experts * ceil_div(above * visits, below * spec.n_experts)
