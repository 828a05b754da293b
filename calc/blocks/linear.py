"""Dense matrices and norms: the two things every block is made of."""

from __future__ import annotations

from calc.op import Component, Kind, Op, Weight
from calc.sizes import Size
from calc.spec import Norm


def linear(
    name: str,
    tokens: Size,
    d_in: Size,
    d_out: Size,
    component: Component,
    *,
    bias: bool = False,
    table: str | None = None,
) -> Op:
    """x [tokens, d_in] -> [tokens, d_out] by a weight [d_out, d_in].

    FLOPs 2 * tokens * d_in * d_out: a multiplication and an addition for each weight and token; the bias counts 0.
    table: the key of a weight that already stands elsewhere (a tied head).
    """
    weights = [Weight(table or f"{name}.weight", (d_out, d_in), component)]
    if bias:
        weights.append(Weight(f"{name}.bias", (d_out,), component))
    return Op(name, "linear", component, 2 * tokens * d_in * d_out, tuple(weights), rows=tokens)


def norm(name: str, spec: Norm, shape: tuple[Size, ...]) -> Op:
    """A norm with weights of `shape` (LayerNorm's bias included where the spec has one); no matrix work."""
    weights: tuple[Weight, ...] = ()
    if spec.affine:
        weights = (Weight(f"{name}.weight", shape, "norm"),)
        if spec.bias:
            weights += (Weight(f"{name}.bias", shape, "norm"),)
    return Op(name, "norm", "norm", weights=weights)


def elementwise(name: str, component: Component, kind: Kind = "elementwise") -> Op:
    """Work without matrices or weights whose operands autograd keeps: an activation, a product, a softmax."""
    return Op(name, kind, component)
