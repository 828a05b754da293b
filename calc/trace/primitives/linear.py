"""A dense matrix: x [rows, d_in] -> [rows, d_out]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from calc.sizes import Size, is_exactly
from calc.spec import Lora
from calc.trace.functions import Matmul
from calc.trace.op import Component, Moves, Weight
from calc.trace.primitives.arithmetic import add, clamped
from calc.trace.primitives.gather import constant
from calc.trace.recorder import Recorder
from calc.trace.shard import Shard
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Split, Tensor


class Matrix(TypedDict, total=False):
    """What a dense matrix has beside its width.

    key, bias_key: paths of the matrix and of a bias where they are not the name's (a tied head). of: the component that
    its weights are reported as. shard: what tensor-parallel ranks hold of it; split: what divides the result among
    them, where that does not follow from the shard. again: whether the layer has multiplied with that matrix before, so
    that autocast's copy of it is there. moves: where some of x stands in a cache. reached: 0 where nothing
    reads the result, so that no gradient comes back. as_weight: x is brought to the weight's format ahead of it. wide:
    the weight is in float32, and so is a copy of x made for it. never_narrow: as of a Weight.
    """

    bias: bool
    key: str | None
    bias_key: str | None
    of: Component | None
    shard: Shard | None
    split: Split | None
    again: bool
    moves: Callable[[], Moves] | None
    reached: Size
    as_weight: bool
    wide: bool
    never_narrow: bool


def linear(
    t: Recorder,
    name: str,
    x: Tensor,
    d_out: Size,
    *,
    inside: bool = True,
    spread: Spread | None = None,
    **matrix: Unpack[Matrix],
) -> Tensor:
    """x [rows, d_in] times a weight [d_out, d_in], 2 * rows * d_in * d_out FLOPs: a multiplication and an addition for
    each weight and row; the bias counts 0.

    It moves x and its result once, and the weight. Going back takes as many FLOPs again for the gradient of x, and of
    the weight. inside: whether it is one of a layer's, which adapters and quantized formats may name, and whose input
    and result are cut where the model says so. spread: how experts share the rows, each with a matrix of its own.
    """
    if not inside:
        return _multiplied(t, name, x, d_out, None, spread, **matrix)
    bounds = constant(t, 1, 4) if t.clamps else None
    if bounds is not None:
        x = clamped(t, x, bounds)
    y = _multiplied(t, name, x, d_out, x.rows, spread, **matrix)
    if bounds is not None:
        y = clamped(t, y, bounds)
    if isinstance(t.adapter, Lora) and name in t.adapter.targets:
        return low_rank(t, t.adapter, name, x, y, spread, matrix)
    return y


def _multiplied(
    t: Recorder,
    name: str,
    x: Tensor,
    d_out: Size,
    rows: Size | None,
    spread: Spread | None,
    **matrix: Unpack[Matrix],
) -> Tensor:
    """The product alone. rows: of the op, None for a matrix that is none of a layer's."""
    of, shard = matrix.get("of"), matrix.get("shard")
    bias_key, moves, again = matrix.get("bias_key"), matrix.get("moves"), matrix.get("again", False)
    fields: dict[str, Any] = {"of": of, "shard": shard, "never_narrow": matrix.get("never_narrow", False)}
    weights = [t.weight(matrix.get("key") or f"{name}.weight", d_out, x.width, **fields)]
    if bias_key or matrix.get("bias"):
        weights.append(t.weight(bias_key or f"{name}.bias", d_out, **fields))
    split = matrix.get("split") or ("stream" if shard is None else shard.split)
    y = t.made(x.rows, d_out, x, weights=tuple(weights), split=split)
    if shard is not None:
        y.heads, y.grouped = shard.kv_heads, x.rows * shard.kv_rows if shard.fused else 0
    m, groups = (x.rows, 1) if spread is None else (spread.rows, spread.reached)
    copies = () if spread is None or not spread.copied else (copied(t, name, spread, weights),)

    def keeps(tape: Tape, read: Storage) -> Storage:
        if matrix.get("as_weight") and not tape.settings.frozen_apart:
            # In fp32 under autocast, which makes a copy of its own of that, whatever it was before.
            read = tape.cast(read, tape.settings.stream)
        if matrix.get("wide"):
            read = tape.cast(read, "fp32")
        return saved_by_product(tape, read, y, weights[0], spread, cast=not again)

    t.op(
        name,
        "linear",
        "matmul",
        (x, *copies),
        (y,),
        weights=tuple(weights),
        of=of,
        flops=2 * x.rows * x.width * d_out,
        rows=rows,
        reached=matrix.get("reached", 1),
        shape=Matmul(m, d_out, x.width, groups),
        moves=moves if spread is None else lambda: spread.moves(x, y, weights),
        keeps=keeps,
        operands=(x,) if copies else None,
    )
    return y


@dataclass(frozen=True, slots=True)
class Spread:
    """How experts share the rows of a product. copies: experts there are. reached: those that any row visits, each with
    `rows` of them, perhaps a fraction. copied: every row has a copy of its expert's matrix, made ahead of the product.
    """

    copies: Size
    reached: Size
    rows: Size
    copied: bool = False

    def moves(self, x: Tensor, y: Tensor, weights: Sequence[Weight]) -> Moves:
        """The weights, and their gradients, are those of the experts that are reached."""
        moved = self.reached * sum((weight.elements for weight in weights), start=0)
        if self.copied:
            return Moves(x.elements + moved, y.elements, weight_grads=moved)
        return Moves(x.elements, y.elements, weight_reads=moved, weight_grads=moved)


def copied(t: Recorder, name: str, spread: Spread, weights: Sequence[Weight]) -> Tensor:
    """Each row's copy of its expert's matrix and bias, looked up ahead of the product."""
    each = sum((weight.elements for weight in weights), start=0)
    y = t.made(spread.reached, each, weights=tuple(weights))
    t.op(f"{name}_copies", "gather", "gather", (), (y,), moves=lambda: Moves(y.elements, y.elements))
    return y


def low_rank(t: Recorder, lora: Lora, name: str, x: Tensor, y: Tensor, spread: Spread | None, whole: Matrix) -> Tensor:
    """y + scale * B A x (Hu et al. 2021, arXiv:2106.09685): 2 * rows * rank * (d_in + d_out) FLOPs more.

    Beside weights that layers have in common it is no adapter's, but a part of the model. whole: the matrix, of whose
    shard columns divide those of A, rows those of B; the other of the two stands whole on every rank."""
    of, shard = t.component if t.common else "adapter", whole.get("shard")
    as_weight = whole.get("as_weight", False)
    with t.trained():
        for half, width, axis in (("A", lora.rank, 1), ("B", y.width, 0)):
            key, own = f"{name}.lora_{half}.weight", shard if shard is not None and shard.axis == axis else None
            how: Matrix = {"of": of, "key": key, "shard": own, "as_weight": half == "A" and as_weight}
            x = linear(t, f"{name}_lora_{half}", x, width, inside=False, spread=spread, **how)
    # What the update's scale multiplies is added to what the matrix itself gave.
    return add(t, f"{name}_lora_add", y, x, of=of)


def saved_by_product(
    tape: Tape, x: Storage, y: Tensor, weight: Weight, spread: Spread | None = None, *, cast: bool = True
) -> Storage:
    """x is kept where the weight is trained.

    Autocast casts both, each time anew but for a weight's first time, and keeps the weight's cast where x needs a
    gradient. cast: whether that cast is made here, and not by an earlier product with the weight.
    """
    s, copies = tape.settings, 1 if spread is None else spread.copies
    table = tape.op if tape.shared or weight.common else None
    if spread is not None and spread.copied and x.grad and not s.autocast:
        own = Storage(copies * weight.elements, s.stream, weight.trainable, "none", weight=weight, expert=True)
        tape.keep(own, "copies of experts")
    read = tape.cast(x, s.dtype) if s.autocast else x
    if s.autocast and x.grad and cast and not tape.has_common(table):
        expert = spread is not None
        made = Storage(copies * weight.elements, s.dtype, False, "none", table, weight=weight, expert=expert)
        tape.keep(made, "cast weight")
    if weight.trainable and read in tape.saved and not is_exactly(read.apart, 0) and not s.fused:
        tape.keep(Storage(read.apart * read.elements, read.dtype, read.grad, read.split), "copy of the input")
    elif weight.trainable:
        tape.keep(tape.narrowed(read) if weight.narrows else read, "input")
    grad = x.grad or weight.trainable
    made = Storage(y.elements, read.dtype, grad, y.split, heads=y.heads, grouped=y.grouped)
    if weight.component != "adapter":
        tape.note_product(made)
    return made
