"""Sums and products number by number, and what only moves numbers: no matrix work."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from calc.sizes import Size, exact_div, is_exactly
from calc.trace.functions import Function
from calc.trace.op import Component, Moves
from calc.trace.recorder import Recorder
from calc.trace.shard import Shard
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Split, Tensor


def add(t: Recorder, name: str, x: Tensor, *others: Tensor, of: Component | None = None) -> Tensor:
    """The sum of tensors, smaller ones spread over x. Backward reads nothing of it."""
    y = t.made(x.rows, x.width, x, *others).divided_as(x)
    y.wide = x.wide
    t.op(name, "elementwise", "add", (x, *others), (y,), of=of or "other", keeps=lambda tape, *reads: tape.like(*reads))
    return y


def times(
    t: Recorder, name: str, a: Tensor, b: Tensor, *, function: Function = "scale", of: Component | None = None
) -> Tensor:
    """a * b, b perhaps spread over a: each is kept where the other needs a gradient."""
    y = t.made(a.rows, a.width, a, b, split=a.split)
    t.op(name, "elementwise", function, (a, b), (y,), of=of, keeps=lambda tape, x, z: tape.times(x, z))
    return y


def weighed(
    t: Recorder, name: str, x: Tensor, *, key: str | None = None, of: Component | None = None, shifted: bool = False
) -> Tensor:
    """x [rows, width] times a learned vector: x is kept where that is trained, shifted x plus another such vector."""
    weight = t.weight(key or f"{name}.weight", x.width, of=of)
    weights = (weight, t.weight(f"{name}.bias", x.width, of=of)) if shifted else (weight,)
    y = t.made(x.rows, x.width, x, weights=weights, split=x.split)
    y.wide = x.wide

    def keeps(tape: Tape, read: Storage) -> Storage:
        wide = "fp32" if tape.settings.stream == "fp32" else read.dtype
        if shifted:
            read = Storage(read.elements, wide, read.grad or weight.trainable, read.split, heads=read.heads)
        return tape.cast(weighed_by(tape, read, weight.trainable), wide)

    t.op(
        name,
        "elementwise",
        "scale",
        (x,),
        (y,),
        weights=weights,
        of=of,
        keeps=keeps,
    )
    return y


def weighed_by(tape: Tape, x: Storage, trained: bool) -> Storage:
    """x times a weight vector: x is kept where that is trained."""
    if trained:
        tape.keep(x, "normed")
    return Storage(x.elements, x.dtype, x.grad or trained, x.split, heads=x.heads)


def opened(t: Recorder, name: str, x: Tensor, *, of: Component | None = None) -> Tensor:
    """x times the tanh of one learned number."""
    weight = t.weight(f"{name}.weight", 1, of=of)
    y = t.made(x.rows, x.width, x, weights=(weight,), split=x.split)

    def keeps(tape: Tape, read: Storage) -> Storage:
        gate = tape.reads_result(Storage(1, tape.settings.stream, weight.trainable, "none"))
        return tape.times(read, gate)

    t.op(name, "elementwise", "scale", (x,), (y,), weights=(weight,), of=of, keeps=keeps)
    return y


def scaled(t: Recorder, name: str, x: Tensor, *, of: Component | None = None) -> Tensor:
    """x times a number, or plus one: one pass over it, of which backward reads nothing."""
    y = t.made(x.rows, x.width, x).divided_as(x)
    t.op(name, "elementwise", "scale", (x,), (y,), of=of, keeps=lambda tape, read: tape.like(read), passes_on=True)
    return y


def pooled(t: Recorder, name: str, x: Tensor, rows: Size, how: str) -> Tensor:
    """[rows, width] of all of x: the mean of every sequence or its largest values, whose places are kept, or of its
    first two vectors the mean, for which no kernel is counted."""
    y = t.made(rows, x.width, x, split=x.split)

    def keeps(tape: Tape, read: Storage) -> Storage:
        if how == "max" and read.grad:
            tape.keep(Storage(y.elements, "int64", False), "places")
        return Storage(y.elements, read.dtype, read.grad)

    if how in ("mean", "max"):
        t.op(name, "elementwise", "pool", (x,), (y,), keeps=keeps)
        return y
    return t.silent(name, (x,), y, keeps, reads=True)


def tempered(t: Recorder, name: str, x: Tensor, n: Size) -> Tensor:
    """x times n numbers of x's dtype that are no parameters, one for each position."""
    return _times_fixed(t, name, x, lambda tape, read: Storage(n, read.dtype, False, "none"))


def head_tempered(t: Recorder, name: str, x: Tensor, heads: Size, n: Size, *, shard: Shard | None = None) -> Tensor:
    """x [rows, heads * width] times scale * ln(1 + p) + bias, two learned numbers a head, at each of n positions p."""
    scale, bias = (t.weight(f"{name}.{each}", heads, shard=shard) for each in ("scale", "bias"))
    y = t.made(x.rows, x.width, x, weights=(scale, bias)).divided_as(x)

    def keeps(tape: Tape, read: Storage) -> Storage:
        if scale.trainable:
            tape.keep(Storage(n, read.dtype, False, "none"), "logarithms")
        factors = Storage(heads * n, read.dtype, scale.trainable or bias.trainable, read.split, heads=read.heads)
        return tape.times(read, factors)

    t.op(name, "elementwise", "scale", (x,), (y,), weights=(scale, bias), keeps=keeps)
    return y


def column_scaled(t: Recorder, name: str, x: Tensor) -> Tensor:
    """x times a number for each column, of x's dtype, which are no parameters: ranks divide them as they do x."""

    def fixed(tape: Tape, read: Storage) -> Storage:
        grouped = x.grouped if is_exactly(x.grouped, 0) else exact_div(x.grouped, x.rows)
        return Storage(x.width, read.dtype, False, x.split, heads=x.heads, grouped=grouped)

    return _times_fixed(t, name, x, fixed)


def buffered(t: Recorder, name: str, x: Tensor, *, numbers: Size = 1) -> Tensor:
    """x times one number, or so many, one for each column, that are a buffer of the model's dtype and no parameter."""
    return _times_fixed(t, name, x, lambda tape, _: Storage(numbers, tape.settings.stream, False, "none"), of="other")


def _times_fixed(
    t: Recorder, name: str, x: Tensor, fixed: Callable[[Tape, Storage], Storage], of: Component | None = None
) -> Tensor:
    """x times numbers that are no parameters; fixed: (tape, x) -> where they stand."""
    y = t.made(x.rows, x.width, x).divided_as(x)
    t.op(
        name,
        "elementwise",
        "scale",
        (x,),
        (y,),
        of=of,
        keeps=lambda tape, read: tape.times(read, fixed(tape, read)),
    )
    return y


def of_same_heads(t: Recorder, tensors: Sequence[Tensor]) -> list[Tensor]:
    """A new tensor for each of `tensors`, of its shape, its share among ranks and its heads."""
    return [t.made(x.rows, x.width, x).divided_as(x) for x in tensors]


def clip(t: Recorder, name: str, *tensors: Tensor) -> list[Tensor]:
    """Each of `tensors` cut to an interval: what they were is kept."""
    made = of_same_heads(t, tensors)
    t.op(
        name,
        "elementwise",
        "other",
        tensors,
        tuple(made),
        keeps=lambda tape, *reads: [tape.reads_input(each) for each in reads],
    )
    return made


def picked(t: Recorder, name: str, x: Tensor, rows: Size) -> Tensor:
    """`rows` of the rows of x in another order, by numbers of which each element has one of its own (torch.gather):
    these are kept, and x, of whose shape alone backward has need."""
    y = t.made(rows, x.width, x, split=x.split)

    def keeps(tape: Tape, read: Storage) -> Storage:
        if read.grad:
            tape.keep(Storage(y.elements, "int64", False, "none"), "numbers")
        x = tape.reads_input(read)
        return Storage(y.elements, x.dtype, x.grad, read.split)

    t.op(name, "gather", "gather", (x,), (y,), moves=lambda: Moves(y.elements, y.elements), keeps=keeps)
    return y


def placed(t: Recorder, x: Tensor, places: Tensor) -> Tensor:
    """x plus vectors of its places, which all layers share; no kernel is counted."""
    y = t.made(x.rows, x.width, x, places, split=x.split)
    return t.silent("placed", (x, places), y, lambda tape, *reads: tape.like(*reads), reads=True)


def clamped(t: Recorder, x: Tensor, bounds: Tensor) -> Tensor:
    """x cut to an interval whose ends stand in a buffer, `bounds`: both are kept. No kernel is counted."""
    y = t.made(x.rows, x.width, x, split=x.split)
    y.heads = x.heads

    def keeps(tape: Tape, read: Storage, ends: Storage) -> Storage:
        if read.grad:
            tape.keep(ends, "bounds")
        return tape.reads_input(read)

    return t.silent("clamp", (x, bounds), y, keeps, reads=True)


def taken(t: Recorder, name: str, x: Tensor, others: Tensor) -> Tensor:
    """x with some of its rows taken by `others`: which, is kept as a byte a row. No kernel is counted."""
    y = t.made(x.rows, x.width, x, others, split=x.split)

    def keeps(tape: Tape, read: Storage, rows: Storage) -> Storage:
        if read.grad or rows.grad:
            tape.keep(Storage(x.rows, "bool", False, "none"), "places")
        return Storage(read.elements, read.dtype, read.grad or rows.grad, read.split)

    return t.silent(name, (x, others), y, keeps, reads=True)


def dropout(t: Recorder, name: str, x: Tensor) -> Tensor:
    """What training leaves of x: a mask is kept, a byte an element, or on the CPU a number like x's.

    Counts are of a model that drops nothing: no kernel is counted.
    """
    return t.silent(name, (x,), x.view(x.rows, x.width), lambda tape, read: tape.drop(read))


def concat(t: Recorder, name: str, *parts: Tensor, of: Component | None = None) -> Tensor:
    """Tensors of one width one behind the other in a new one: a kernel that only moves."""
    rows = sum((part.rows for part in parts), start=0)
    y = t.made(rows, parts[0].width, *parts, split=parts[0].split)

    def keeps(tape: Tape, *reads: Storage) -> Storage:
        like = tape.like(*reads)
        return Storage(y.elements, like.dtype, like.grad, y.split)

    t.op(name, "elementwise", "copy", parts, (y,), of=of, keeps=keeps)
    return y


def joined(t: Recorder, *parts: Tensor, rows: Size, width: Size, split: Split | None = None) -> Tensor:
    """Tensors laid side by side in a new one [rows, width], as whoever reads it finds it; no kernel is counted."""
    y = t.made(rows, width, *parts, split=split or parts[0].split)
    y.heads = parts[0].heads

    def keeps(tape: Tape, *reads: Storage) -> Storage:
        like = tape.like(*reads)
        return Storage(y.elements, like.dtype, like.grad, y.split, heads=y.heads)

    return t.silent("join", parts, y, keeps, reads=True)
