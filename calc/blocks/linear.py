"""Dense matrices, norms, sums and tables: what every block is made of, each with what it computes and moves."""

from __future__ import annotations

from typing import Any

from calc.functions import Function, Matmul
from calc.op import Component, Moves, Op, Weight
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
    return Op(
        name,
        "linear",
        component,
        2 * tokens * d_in * d_out,
        tuple(weights),
        rows=tokens,
        function="matmul",
        shape=Matmul(tokens, d_out, d_in),
        moves=lambda: Moves(tokens * d_in, tokens * d_out),
    )


def norm(
    name: str, spec: Norm, shape: tuple[Size, ...], rows: Size, *, follows: bool = True, feeds: bool = False
) -> Op:
    """A norm of vectors [rows, *shape] with weights of `shape` (LayerNorm's bias included where the spec has one).

    No matrix work. follows: whether it reads what the op right ahead of it made. feeds: whether nothing but what runs
    right behind it reads its result.
    """
    weights: tuple[Weight, ...] = ()
    if spec.affine:
        weights = (Weight(f"{name}.weight", shape, "norm"),)
        if spec.bias:
            weights += (Weight(f"{name}.bias", shape, "norm"),)

    def moves() -> Moves:
        one = rows
        for axis in shape:
            one = one * axis
        return Moves(one, one, from_chain=one if follows else 0, to_chain=one if feeds else 0)

    return Op(name, "norm", "norm", weights=weights, function=spec.kind, moves=moves)


def elementwise(
    name: str,
    component: Component,
    function: Function,
    reads: Size,
    writes: Size,
    *,
    weights: tuple[Weight, ...] = (),
    from_chain: Size | None = None,
    to_chain: Size = 0,
) -> Op:
    """Work without matrices whose operands autograd keeps: an activation, a product, a softmax.

    from_chain: of what it reads, what the ops right ahead of it made; None for all of it.
    """
    moves = Moves(reads, writes, from_chain=reads if from_chain is None else from_chain, to_chain=to_chain)
    return Op(name, "elementwise", component, weights=weights, function=function, moves=lambda: moves)


def block_scale(name: str, width: Size, rows: Size) -> Op:
    """Vectors [rows, width] times a learned one, value by value (LayerScale). No matrix work."""
    one, weight = rows * width, Weight(f"{name}.weight", (width,), "other")
    return elementwise(name, "other", "scale", one, one, weights=(weight,), to_chain=one)


def mapped(
    name: str,
    component: Component,
    function: Function,
    rows: Size,
    width: Size,
    operands: int = 1,
    *,
    follows: bool = True,
    feeds: bool = False,
) -> Op:
    """As `elementwise`, from `operands` tensors [rows, width] to one. follows, feeds: as for a norm."""

    def moves() -> Moves:
        one = rows * width
        return Moves(operands * one, one, from_chain=operands * one if follows else 0, to_chain=one if feeds else 0)

    return Op(name, "elementwise", component, function=function, moves=moves)


def residual(name: str, tokens: Size, d_model: Size, n: int = 2, *, feeds: bool = False) -> Op:
    """The sum of n vectors [tokens, d_model] each: a block's result, and the residual stream.

    feeds: whether nothing but the norm right behind it reads the sum.
    """

    def moves() -> Moves:
        one = tokens * d_model
        # Of what is added, only the block's own result can have been made just now.
        return Moves(n * one, one, from_chain=one, to_chain=one if feeds else 0)

    return Op(name, "elementwise", "other", function="add", moves=moves)


def product(name: str, component: Component, flops: Size, shape: Matmul, **fields: Any) -> Op:
    """`shape.groups` products [m, k] x [k, n] of activations, each read and written once but where `moves` among the
    `fields` of Op says otherwise. flops: as counted, which a padded or a masked product may differ in."""
    m, n, k, groups = shape.m, shape.n, shape.k, shape.groups
    fields = {"moves": lambda: Moves(groups * k * (m + n), groups * m * n)} | fields
    return Op(name, "attention", component, flops, function="batched_matmul", shape=shape, **fields)


def gather(
    name: str,
    component: Component,
    weights: tuple[Weight, ...],
    rows: Size,
    width: Size,
    *,
    feeds: bool = False,
) -> Op:
    """`rows` vectors of `width` looked up in tables, 0 FLOPs. feeds: whether only what runs behind it reads them."""

    def moves() -> Moves:
        found = rows * width
        return Moves(0, found, weight_reads=found, to_chain=found if feeds else 0)

    return Op(name, "gather", component, weights=weights, function="gather", moves=moves)


def added(name: str, component: Component, rows: Size, width: Size, others: Size) -> Op:
    """Vectors [rows, width] plus `others` elements that are spread over them: positions and the like, just made."""

    def moves() -> Moves:
        one = rows * width
        return Moves(one + others, one, from_chain=one + others, to_chain=one)

    return Op(name, "elementwise", component, function="add", moves=moves)
