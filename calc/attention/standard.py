"""Standard attention: each step a kernel of its own that reads its operands from main memory and writes its result.

Steps: Dao et al. 2022 (arXiv:2205.14135), algorithm 0 forward and algorithm 3 backward. A mask that is added and
dropout are steps more, as in the authors' own baseline (flash-attention, benchmarks/benchmark_flash_attention.py,
attention_pytorch).
"""

from __future__ import annotations

from typing import NamedTuple

from calc.attention.cost import Cost
from calc.attention.shape import AttentionShape
from calc.sizes import Size


class Step(NamedTuple):
    """One kernel: the tensors it reads and those it writes, by the names that `sizes` gives."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


FORWARD = (
    Step("scores", ("q", "k"), ("square",)),
    Step("softmax", ("square",), ("square",)),
    Step("values", ("square", "v"), ("o",)),
)
BACKWARD = (
    Step("gradient of v", ("square", "o"), ("v",)),
    Step("gradient of probabilities", ("o", "v"), ("square",)),
    Step("gradient of scores", ("square", "square"), ("square",)),
    Step("gradient of q", ("square", "k"), ("q",)),
    Step("gradient of k", ("square", "q"), ("k",)),
)
MASK = Step("mask", ("square",), ("square",))
DROPOUT = Step("dropout", ("square",), ("square", "keep"))
DROPOUT_BACKWARD = Step("gradient through dropout", ("square", "keep"), ("square",))


def steps(shape: AttentionShape, masked: bool, dropout: bool) -> tuple[Step, ...]:
    """The kernels of the shape's direction, with a mask's and dropout's where asked for.

    A mask that is added needs no kernel backward: the scores' gradient passes through as it is.
    """
    found = [*FORWARD[:1], *[MASK] * masked, FORWARD[1], *[DROPOUT] * dropout, FORWARD[2]]
    if shape.direction == "backward":
        found += [*BACKWARD[:2], *[DROPOUT_BACKWARD] * dropout, *BACKWARD[2:]]
    return tuple(found)


def sizes(shape: AttentionShape) -> dict[str, Size]:
    """Tensor -> bytes. The square of scores is as wide as the inputs; dropout keeps a byte for each of its elements."""
    square = shape.batch * shape.heads * shape.seq * shape.keys
    queries, keys = shape.batch * shape.heads * shape.seq, shape.batch * shape.kv_heads * shape.keys
    elements = {
        "q": queries * shape.d_head,
        "k": keys * shape.d_head,
        "v": keys * shape.d_value,
        "o": queries * shape.d_value,
        "square": square,
    }
    return {name: shape.item * count for name, count in elements.items()} | {"keep": square}


def standard(shape: AttentionShape, masked: bool | None = None, dropout: bool = False) -> Cost:
    """The cost of all steps. Every pair is computed, hidden or not: the mask comes after the product.

    masked: whether a mask is added; None: where the shape has one.
    kept: the probabilities, and with dropout what it gave and what it kept. peak: two squares at once, the scores and
    their probabilities, or backward the probabilities beside two of their gradients; dropout's are more.
    """
    bytes_of = sizes(shape)
    run = steps(shape, shape.hides if masked is None else masked, dropout)
    square = bytes_of["square"]
    dropped = square + bytes_of["keep"] if dropout else 0
    pairs = shape.batch * shape.heads * shape.seq * shape.keys
    # Backward is two products for each of forward: it reads the probabilities and computes none again.
    products = 1 if shape.direction == "forward" else 3
    return Cost(
        flops=products * 2 * pairs * (shape.d_head + shape.d_value),
        exponentials=pairs,
        read=sum(bytes_of[name] for step in run for name in step.reads),
        written=sum(bytes_of[name] for step in run for name in step.writes),
        saved=square + dropped if shape.direction == "backward" else 0,
        peak=dropped + square * (2 if shape.direction == "forward" else 3),
    )
