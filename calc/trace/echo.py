"""A part that is passed in another way than the one that holds its weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from calc.trace.gradients import backward
from calc.trace.op import Moves, Op
from calc.trace.part import Part


def echo(part: Part) -> Part:
    """`part` as calls of weights that stand elsewhere in the tree: what it computes and moves stays."""

    def inner(child: Part | Op) -> Part | Op:
        if isinstance(child, Part):
            return echo(child)
        lent = child.own_or_lent
        return replace(child, weights=(), lent=lent, backward=backward(child), moves=_as_with_weights(child))

    return replace(part, body=tuple(map(inner, part.body)))


def _as_with_weights(op: Op) -> Callable[[], Moves]:
    """What an op moves, its weights told as a number."""
    return lambda: replace(op.moved(), weight_reads=op.weights_read, weight_grads=op.weight_gradients)
