"""Products of activations outside of attention's core."""

from __future__ import annotations

from typing import Any

from calc.sizes import Size
from calc.trace.functions import Matmul
from calc.trace.op import Kind, Moves
from calc.trace.recorder import Recorder
from calc.trace.tensor import Split, Tensor


def product(
    t: Recorder,
    name: str,
    a: Tensor,
    b: Tensor,
    rows: Size,
    width: Size,
    shape: Matmul,
    flops: Size,
    *,
    split: Split = "tensor",
    kind: Kind = "attention",
    **fields: Any,
) -> Tensor:
    """`shape.groups` products [m, k] x [k, n] of what stands in a and in b: [rows, width].

    kind: of the op, `linear` for what is no attention and so not what selective checkpointing runs again.
    split: how ranks divide it, which are each given whole products: those of their heads, unless it says otherwise.
    flops: as counted, which a padded or a masked product may differ in. fields: as those of `Op`; each operand is read
    and the result written as large as `shape` says, unless `moves` among them says otherwise.
    """
    m, n, k, groups = shape.m, shape.n, shape.k, shape.groups
    y = t.made(rows, width, a, b, split=split)
    fields = {"moves": lambda: Moves(groups * k * (m + n), groups * m * n)} | fields
    if kind == "linear":
        fields = {"backward": (int(a.grad) + int(b.grad)) * flops} | fields
    t.op(name, kind, "batched_matmul", (a, b), (y,), flops=flops, shape=shape, **fields)
    return y
