"""Rows looked up in tables, 0 FLOPs."""

from __future__ import annotations

from calc.op import Component, Moves, Weight
from calc.sizes import Size
from calc.trace.recorder import Recorder
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


def gather(
    t: Recorder, name: str, weights: tuple[Weight, ...], rows: Size, width: Size, *, of: Component | None = None
) -> Tensor:
    """`rows` vectors of `width`: only those rows of the tables are read; which they are is kept if one is trained."""
    y = t.made(rows, width, weights=weights)
    t.op(
        name,
        "gather",
        "gather",
        (),
        (y,),
        weights=weights,
        of=of,
        moves=lambda: Moves(0, y.elements, weight_reads=y.elements),
        keeps=lambda tape: kept_by_gather(tape, y, rows, any(weight.trainable for weight in weights)),
    )
    return y


def parameters(
    t: Recorder, name: str, weights: tuple[Weight, ...], rows: Size, width: Size, *, of: Component | None = None
) -> Tensor:
    """Learned vectors that no number looks up, `rows` of them in all: nothing is kept to find them again."""
    y = t.made(rows, width, weights=weights)
    trained = any(weight.trainable for weight in weights)
    t.op(
        name,
        "gather",
        "gather",
        (),
        (y,),
        weights=weights,
        moves=lambda: Moves(0, y.elements, weight_reads=y.elements),
        keeps=lambda tape: Storage(y.elements, tape.settings.stream, trained),
        of=of,
    )
    return y


def constant(t: Recorder, rows: Size, width: Size) -> Tensor:
    """A table that is no parameter and as wide as all weights (sinusoids): what is made of it alone has no gradient."""
    y = Tensor(rows, width, False, "none")
    return t.silent("constant", (), y, lambda tape: Storage(y.elements, tape.settings.stream, False, "none"))


def kept_by_gather(tape: Tape, y: Tensor, indices: Size, trained: bool) -> Storage:
    """Which rows, as numbers of 8 bytes, where the table is trained."""
    if trained:
        tape.keep(Storage(indices, "int64", False, "none"), "indices")
    return Storage(y.elements, tape.settings.stream, trained)
