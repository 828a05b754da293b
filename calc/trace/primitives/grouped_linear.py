"""A dense matrix in groups: each share of a vector times rows of its own."""

from __future__ import annotations

from calc.sizes import Size, exact_div, quotient
from calc.trace.functions import Matmul
from calc.trace.primitives.linear import saved_by_product
from calc.trace.recorder import Recorder
from calc.trace.shard import Shard
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


def grouped_linear(
    t: Recorder,
    name: str,
    x: Tensor,
    groups: Size,
    rank: Size,
    *,
    shard: Shard | None = None,
    bias: bool = False,
    copied: bool = True,
) -> Tensor:
    """x [rows, width] by a weight [groups * rank, width / groups] -> [rows, groups * rank], each of `groups` shares of
    x to rank values: 2 * rows * width * rank FLOPs.

    shard: what tensor-parallel ranks hold of it, whole groups. copied: whether going back keeps a copy of x, laid out
    group by group, and not x itself.
    """
    weights = [t.weight(f"{name}.weight", groups * rank, exact_div(x.width, groups), shard=shard)]
    if bias:
        weights.append(t.weight(f"{name}.bias", groups * rank, shard=shard))
    y = t.made(x.rows, groups * rank, x, weights=tuple(weights), split="stream" if shard is None else shard.split)

    def keeps(tape: Tape, read: Storage) -> Storage:
        return tape.like(saved_by_product(tape, tape.like(read) if copied else read, y, weights[0]))

    t.op(
        name,
        "linear",
        "matmul",
        (x,),
        (y,),
        weights=tuple(weights),
        flops=2 * x.rows * x.width * rank,
        rows=x.rows,
        in_parts=True,
        shape=Matmul(x.rows, rank, quotient(x.width, groups), groups),
        keeps=keeps,
    )
    return y
