"""Attention within plain windows of patches, and layers between two stages that pool what asks (SAM 2's Hiera).

Source: Ryali et al. 2023 (arXiv:2306.00989); transformers 5.23, models/sam2/modeling_sam2.py, Sam2MultiScaleBlock.
"""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.attention import square_of
from calc.blocks.surroundings import Surroundings
from calc.errors import Refused
from calc.sizes import Size, ceil_div, exact_div, floor_div, holds, is_symbolic
from calc.spec import PooledAttention, WindowAttention
from calc.spec.load import Load
from calc.trace.functions import Attend, Matmul
from calc.trace.primitives.product import product
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace

Grid = tuple[Size, Size]


def plain_windows(t: Trace, spec: WindowAttention, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """x [batch * rows * columns, d] -> the same, over windows of side x side patches, or over the whole picture.

    FLOPs of scores and values 4 * windows * side^4 * d, and 2 * windows * side^2 * n_heads * d of heads that meet.
    """
    y = _within_windows(t, spec, x, x.width, 1, load, around.grid)
    return t.joined(y, rows=x.rows, width=y.width) if spec.side is not None else y


def pooled_attention(
    t: Trace, name: str, spec: PooledAttention, x: Tensor, load: Load, around: Surroundings
) -> tuple[Tensor, Load]:
    """x [batch * rows * columns, d] -> [batch * rows * columns / stride^2, d_merged], and the load of these vectors.

    name: of the group of layers that reads them.
    """
    rows, columns = halved(spec, around.grid)
    made = load.batch * rows * columns
    with t.part(f"merges.{name}", x, of="attention") as out:
        read = t.norm("norm", spec.norm, x)
        kept = t.linear("proj", read, spec.d_merged, bias=True)
        if spec.stride > 1:
            kept = t.max_pooled("pool", kept, made)
        y = _within_windows(t, spec, read, spec.d_merged, spec.stride, load, around.grid)
        y = y if spec.side is None else t.joined(y, rows=made, width=spec.d_merged)
        out.append(t.add("add", kept, y))
    around.grid = rows, columns
    return out[0], replace(load, seq=rows * columns)


def halved(spec: PooledAttention, grid: Grid) -> Grid:
    """Rows and columns behind the pooling. Errors: Refused where it leaves a rest."""
    for patches in grid:
        if not is_symbolic(patches) and holds(patches % spec.stride > 0):
            expected = f"patches in whole squares of {spec.stride} x {spec.stride} in every stage that is pooled"
            raise Refused("image", expected, f"{patches} along a side")
    return floor_div(grid[0], spec.stride), floor_div(grid[1], spec.stride)


def _within_windows(
    t: Trace, spec: WindowAttention | PooledAttention, x: Tensor, width: Size, stride: int, load: Load, grid: Grid
) -> Tensor:
    """x [batch * rows * columns, d] -> [windows * side^2 / stride^2, width], what fills windows up with them."""
    windows, places = load.batch, grid[0] * grid[1]
    if spec.side is not None:
        windows, places = windows * ceil_div(grid[0], spec.side) * ceil_div(grid[1], spec.side), spec.side**2
        x = t.joined(x, rows=windows * places, width=x.width)
    heads, d_head = spec.n_heads, exact_div(width, spec.n_heads)
    qkv = t.linear("qkv_proj", x, 3 * width, bias=True)
    q, k, v = (qkv.columns(width) for _ in range(3))
    _across_heads(t, q, k, windows * places, heads, d_head)
    queries = floor_div(places, stride**2)
    if stride > 1:
        q = t.max_pooled("query_pool", q, windows * queries)
    inside = replace(load, batch=windows, seq=queries, context=0)
    y = t.attend(
        *(q, k, v),
        Attend(windows * heads, 1, queries, places, d_head, d_head, causal=False),
        square_of(inside, heads, heads, places, d_head, d_head),
        2 * windows * heads * queries * places,
    )
    return t.linear("o_proj", y, width, bias=True)


def _across_heads(t: Trace, q: Tensor, k: Tensor, vectors: Size, heads: Size, d_head: Size) -> None:
    """Scores of the heads of each patch with one another: 2 * vectors * n_heads^2 * d_head FLOPs, which nothing reads,
    so that nothing goes back through them."""
    with t.without_gradient():
        shape = Matmul(heads, heads, d_head, vectors, weighed=False)
        scores = product(t, "across_heads", q, k, vectors * heads, heads, shape, 2 * vectors * heads * heads * d_head)
        weights = t.made(vectors * heads, heads, scores)
        t.op("across_heads_softmax", "elementwise", "softmax", (scores,), (weights,))
