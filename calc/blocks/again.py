"""Ops that use weights for the second time in a layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from calc.trace.echo import echo
from calc.trace.op import Keeps, Op
from calc.trace.part import Part
from calc.trace.primitives.linear import saved_by_product
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def again(t: Trace, run: Callable[[], Tensor]) -> Tensor:
    """What `run` records, as a second use of weights that stand elsewhere, and have been cast there."""
    body, y = t.captured(run)
    t.body += [replace(after, keeps=_kept_again(before)) for before, after in _echoed(body)]
    return y


def _echoed(body: tuple[Part | Op, ...]) -> Iterator[tuple[Op, Op]]:
    """Each op as it was recorded, and without its weights."""
    for before, after in zip(body, echo(Part("again", body)).body, strict=True):
        assert isinstance(before, Op)
        assert isinstance(after, Op)
        yield before, after


def _kept_again(op: Op) -> Keeps | None:
    """What is kept of an op whose weight an earlier one has cast."""
    if op.kind != "linear" or op.keeps is None:
        return op.keeps
    return lambda tape, read: saved_by_product(tape, read, op.outputs[0], op.weights[0], cast=False)
