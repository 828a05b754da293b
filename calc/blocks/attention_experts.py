"""Queries and outputs of experts: each token's attention has the heads of those that it visits."""

from __future__ import annotations

from typing import Literal

from calc.blocks.moe import spread_of, with_bias
from calc.sizes import Size, exact_div
from calc.spec import HeadExperts, Moe
from calc.spec.load import Load
from calc.trace.primitives.experts import combine, dispatch, route
from calc.trace.shard import COLUMN, ROW
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def routed_queries(t: Trace, spec: HeadExperts, x: Tensor, width: Size, load: Load) -> tuple[Tensor, Tensor]:
    """x [tokens, d_model] -> queries [tokens, width] of the experts that each token visits, side by side, and their
    weights [tokens, top_k]; 2 * d_model * width FLOPs a token beside the router's."""
    visits = x.rows * spec.top_k
    with t.part("queries", x) as out:
        scores = t.linear("router", x, spec.n_experts, of="router")
        weights = route(t, _choice(spec), scores, x)
        read = dispatch(t, _choice(spec), x, weights, visits)
        fields = {"copies": spec.n_experts, "active": spec.top_k, "expert": True}
        with t.part("experts.{}", read, **fields) as made:
            spread = spread_of(_choice(spec), x.rows, visits, load)
            y = t.linear("q_proj", read, exact_div(width, spec.top_k), shard=COLUMN, spread=spread)
            made.append(y)
        q = combine(t, _one_by_one(spec, "input"), y, weights, visits).view(x.rows, width)
        out += (q, weights)
    return q, weights


def routed_output(
    t: Trace, spec: HeadExperts, y: Tensor, weights: Tensor, d_model: Size, load: Load, *, bias: bool
) -> Tensor:
    """y [tokens, heads * d_value] -> [tokens, d_model]: each expert projects what its own heads gave, and the sum is
    weighed. bias: whether a learned vector is added to it."""
    tokens, visits = y.rows, y.rows * spec.top_k
    with t.part("outputs", y, weights) as out:
        own = y.view(visits, exact_div(y.width, spec.top_k))
        read = dispatch(t, _one_by_one(spec, "result"), own, weights, visits)
        fields = {"copies": spec.n_experts, "active": spec.top_k, "expert": True}
        with t.part("experts.{}", read, **fields) as made:
            spread = spread_of(_choice(spec), tokens, visits, load)
            each = t.linear("o_proj", read, d_model, shard=ROW, spread=spread)
            made.append(each)
        z = combine(t, _choice(spec), each, weights, tokens)
        out.append(with_bias(t, z) if bias else z)
    return out[-1]


def _choice(spec: HeadExperts) -> Moe:
    """How a token's experts are chosen and weighed, as a mixture of experts has it."""
    return Moe.model_construct(n_experts=spec.n_experts, top_k=spec.top_k)


def _one_by_one(spec: HeadExperts, weigh: Literal["result", "input"]) -> Moe:
    """As if each visit were a token's only one, into the experts' order or back; weigh: at the other end than that."""
    return Moe.model_construct(n_experts=spec.n_experts, top_k=1, weigh=weigh)
