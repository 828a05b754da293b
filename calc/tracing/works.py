"""What one recorded operation counts: the sides of its tensors, its pairs, and the bytes it moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from calc.spec.load import Scores
from calc.spec.pairs import twice_seen_last
from calc.trace.functions import Attend, Matmul
from calc.trace.op import Moves, Weight
from calc.trace.tensor import Tensor
from calc.tracing.aten import Work
from calc.tracing.events import Seen


def sides(x: Seen) -> tuple[int, int]:
    """Rows and width of a tensor, as large as the memory that it reads."""
    width = x.shape[-1] if x.shape else 1
    return (x.elements // width, width) if width and x.elements % width == 0 else (x.elements, 1)


def between_activations(work: Work) -> Work:
    """A product of which neither side is a weight."""
    assert isinstance(work.shape, Matmul)
    shape = replace(work.shape, weighed=False)
    return replace(work, kind="attention", function="batched_matmul", shape=shape, rows=None)


def seen_pairs(flops: int, shape: Attend, scores: Scores) -> int:
    """Of the FLOPs of all pairs those that are counted, where a query sees the keys up to its own place."""
    q, k = int(shape.queries), int(shape.keys)
    if not shape.causal or scores == "full":
        return flops
    if scores == "causal-half":
        return flops // 2
    return flops // (q * k) * (twice_seen_last(q, k) // 2)


def moves_of(
    work: Work, reads: tuple[Tensor, ...], made: tuple[Tensor, ...], weights: tuple[Weight, ...]
) -> Callable[[], Moves] | None:
    """What is not every input, weight and result once: rows of a table, and the experts that are reached."""
    written = sum((x.elements for x in made), start=0)
    if work.looked_up is not None:
        return lambda: Moves(0, written, weight_reads=work.looked_up if weights else 0)
    if work.name == "grouped_mm" and weights and isinstance(work.shape, Matmul):
        moved = work.shape.groups * sum((weight.elements for weight in weights), start=0)
        read = sum((x.elements for x in reads), start=0)
        return lambda: Moves(read, written, weight_reads=moved, weight_grads=moved)
    return None
