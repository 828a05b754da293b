"""Rows looked up in tables, 0 FLOPs."""

from __future__ import annotations

from collections.abc import Callable

from calc.sizes import Size
from calc.trace.op import Component, Moves, Weight
from calc.trace.recorder import Recorder
from calc.trace.shard import VOCABULARY
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Split, Tensor


def gather(
    t: Recorder,
    name: str,
    weights: tuple[Weight, ...],
    rows: Size,
    width: Size,
    *,
    of: Component | None = None,
    indices: Size | None = None,
) -> Tensor:
    """`rows` vectors of `width`: only those rows of the tables are read; which they are is kept where one is trained.

    indices: how many numbers say which, where each vector is not looked up by one of its own.
    """
    looked_up = rows if indices is None else indices
    split: Split = "looked up" if any(weight.shard is VOCABULARY for weight in weights) else "none"
    return _read(
        t, name, weights, rows, width, of, lambda tape, y, grad: saved_by_gather(tape, y, looked_up, grad, split)
    )


def parameters(
    t: Recorder, name: str, weights: tuple[Weight, ...], rows: Size, width: Size, *, of: Component | None = None
) -> Tensor:
    """Learned vectors that no number looks up, `rows` of them in all: a view of the weights themselves, of which
    nothing more is kept."""

    def keeps(tape: Tape, y: Tensor, trained: bool) -> Storage:
        return Storage(y.elements, tape.settings.stream, trained, parameter=True)

    return _read(t, name, weights, rows, width, of, keeps)


def _read(
    t: Recorder,
    name: str,
    weights: tuple[Weight, ...],
    rows: Size,
    width: Size,
    of: Component | None,
    keeps: Callable[[Tape, Tensor, bool], Storage],
) -> Tensor:
    """Rows of weights, each read and written once. keeps: (tape, the rows, whether any weight is trained)."""
    shard = weights[0].shard
    split, heads = ("kv", shard.kv_heads) if shard is not None and shard.split == "kv" else ("stream", 1)
    y = t.made(rows, width, weights=weights, split=split)
    y.heads = heads
    trained = any(weight.trainable for weight in weights)
    t.op(
        name,
        "gather",
        "gather",
        (),
        (y,),
        weights=weights,
        of=of,
        moves=lambda: Moves(0, y.elements, weight_reads=y.elements),
        keeps=lambda tape: keeps(tape, y, trained),
    )
    return y


def constant(t: Recorder, rows: Size, width: Size, *, split: Split = "none") -> Tensor:
    """Numbers that are no parameters and as wide as all weights: sinusoids, zeros, what the model is given.

    What is made of them alone has no gradient.
    """
    y = Tensor(rows, width, False, split)
    return t.silent("constant", (), y, lambda tape: Storage(y.elements, tape.settings.stream, False, split))


def saved_by_gather(tape: Tape, y: Tensor, indices: Size, trained: bool, split: Split) -> Storage:
    """Which rows, as numbers of 8 bytes, where the table is trained."""
    if trained:
        tape.keep(Storage(indices, "int64", False, split), "indices")
    return Storage(y.elements, tape.settings.stream, trained)
