"""Experts that are vectors, retrieved by product keys, beside a gated MLP (Doge)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calc.blocks.mlp import mlp
from calc.blocks.surroundings import Surroundings
from calc.sizes import Size, ratio
from calc.spec import Mlp, RetrievedExperts
from calc.spec.load import Load
from calc.trace.functions import Matmul
from calc.trace.op import Moves
from calc.trace.primitives.product import product
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def retrieved_experts(t: Trace, spec: RetrievedExperts, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """x [tokens, d_model] -> the same. FLOPs beside the MLP's: 4 * tokens * d_model * (n_keys + top_k)."""
    tokens, top_k = x.rows, spec.top_k
    scores = t.linear("router", x, 2 * spec.n_keys, of="router")
    weights = _chosen(t, spec, scores, tokens)
    with t.part("retrieved", x, weights, copies=1, active=ratio(top_k, spec.n_experts)) as out:
        down, up = (_looked_up(t, spec, name, tokens, x.width, first=name == "down") for name in ("down", "up"))
        flops = 2 * tokens * top_k * x.width
        how: dict[str, Any] = {"split": "stream", "kind": "linear"}
        shape = Matmul(top_k, 1, x.width, tokens, weighed=False)
        made = product(t, "scores", down, x, tokens, top_k, shape, flops, keeps=_multiplied(tokens * top_k), **how)
        inner = t.times("weighed", t.activation("activation", spec.activation, made), weights)
        shape = Matmul(1, x.width, top_k, tokens, weighed=False)
        out.append(product(t, "values", inner, up, tokens, x.width, shape, flops, keeps=_multiplied(x.elements), **how))
    shared = mlp(t, Mlp.model_construct(d_ff=spec.d_shared, gated=True, bias=spec.bias, activation=spec.activation), x)
    return t.add("retrieved_add", shared, out[0])


def _chosen(t: Trace, spec: RetrievedExperts, scores: Tensor, tokens: Size) -> Tensor:
    """Weights [tokens, top_k] of the experts with the best keys. Every sum of two halves is written out."""
    sums = t.made(tokens, spec.n_keys * spec.n_keys, scores)
    t.op("keys", "elementwise", "add", (scores,), (sums,), of="router")
    chosen = t.made(tokens, spec.top_k, sums)

    def keeps(tape: Tape, read: Storage) -> Storage:
        if read.grad:
            tape.keep(Storage(2 * tokens * spec.n_keys, "int64", False), "places of halves")
            tape.keep(Storage(tokens * spec.top_k, "int64", False), "places of keys")
        wide = "fp32" if tape.settings.autocast_on_gpu else read.dtype
        weights = tape.reads_result(Storage(tokens * spec.top_k, wide, read.grad))
        if spec.renormalize:
            weights = tape.times(weights, Storage(tokens, wide, read.grad))
        return weights

    t.op("route", "elementwise", "route", (sums,), (chosen,), of="router", keeps=keeps, operands=(scores,))
    return chosen


def _multiplied(elements: Size) -> Callable[[Tape, Storage, Storage], Storage]:
    """What a product keeps of both its operands."""
    return lambda tape, a, b: tape.product(a, b, elements, "stream")


def _looked_up(t: Trace, spec: RetrievedExperts, name: str, tokens: Size, width: Size, *, first: bool) -> Tensor:
    """Each token's vectors [tokens, top_k * d_model], whose numbers both tables are read by."""
    weight = t.weight(f"{name}.weight", spec.n_experts, width, of="routed_expert")
    y = t.made(tokens, spec.top_k * width, weights=(weight,))

    def keeps(tape: Tape) -> Storage:
        if weight.trainable and first:
            tape.keep(Storage(tokens * spec.top_k, "int64", False), "chosen experts")
        return Storage(y.elements, tape.settings.stream, weight.trainable)

    moves: dict[str, Any] = {"moves": lambda: Moves(0, y.elements, weight_reads=y.elements)}
    t.op(name, "gather", "gather", (), (y,), weights=(weight,), of="routed_expert", keeps=keeps, **moves)
    return y
