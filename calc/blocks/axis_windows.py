"""Attention within windows of patches, or over all of them, that adds products of queries with distances' vectors,
along rows and along columns (Segment Anything's ViT).

Source: Li et al. 2022 (arXiv:2112.01526, section 4.1); transformers 5.23, models/sam/modeling_sam.py,
SamVisionAttention.
"""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.attention import square_of
from calc.blocks.surroundings import Surroundings
from calc.errors import Refused
from calc.sizes import Size, at_least, ceil_div, exact_div, is_symbolic
from calc.spec import WindowAttention
from calc.spec.load import Load
from calc.trace.functions import Attend, Matmul
from calc.trace.primitives.attend_live import Scoring
from calc.trace.primitives.product import product
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def axis_windows(t: Trace, spec: WindowAttention, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """x [batch * rows * columns, d] -> the same, over windows of side x side patches, or over the whole picture.

    FLOPs of scores and values 4 * windows * places^2 * d, and of what is added 4 * windows * places * side * d.
    Errors: Refused for a picture of another size, for whose distances no vectors are learned.
    """
    rows, columns = around.grid
    if load.image is not None:
        raise Refused("image", "none, since distances are learned for pictures of one size", "another size")
    windows, sides = load.batch, around.grid
    if spec.side is not None:
        windows, sides = windows * ceil_div(rows, spec.side) * ceil_div(columns, spec.side), (spec.side, spec.side)
    elif not any(is_symbolic(each) for each in (rows, columns)) and not rows == columns == spec.axes:
        raise Refused("axes", f"{rows}, of a square picture that is seen whole", spec.axes)
    places, heads, width = sides[0] * sides[1], spec.n_heads, x.width
    d_head = exact_div(width, heads)
    apart = x if spec.side is None else t.joined(x, rows=windows * places, width=width)
    qkv = t.linear("qkv_proj", apart, 3 * width, bias=spec.qkv_bias)
    q, k, v = (t.joined(qkv.columns(width), rows=qkv.rows, width=width) for _ in range(3))
    inside = replace(load, batch=windows, seq=places, context=0)
    own = _added(t, spec, q, windows, sides, d_head)
    y = t.attend(
        *(_scaled(t, q), k, v),
        Attend(windows * heads, 1, places, places, d_head, d_head, causal=False),
        square_of(inside, heads, heads, places, d_head, d_head),
        2 * windows * heads * places * places,
        Scoring(own=own),
    )
    y = t.linear("o_proj", _as_one(t, y, q, k, v), width, bias=True)
    return y if spec.side is None else t.joined(y, rows=x.rows, width=width)


def _scaled(t: Trace, q: Tensor) -> Tensor:
    """Queries as the scores read them: written out, ahead of their product with keys, times a number."""
    y = t.made(q.rows, q.width, q)

    def keeps(tape: Tape, read: Storage) -> Storage:
        return tape.like(read) if tape.settings.execution == "eager" else read

    return t.silent("scale", (q,), y, keeps)


def _as_one(t: Trace, y: Tensor, *read: Tensor) -> Tensor:
    """y, made of queries, keys and values that lie in one tensor: who keeps some of it keeps all."""

    def keeps(tape: Tape, made: Storage, *read: Storage) -> Storage:
        if any(each in tape.saved for each in read):
            for each in read:
                tape.keep(each, "beside what is kept")
        return made

    return t.silent("one_tensor", (y, *read), t.made(y.rows, y.width, y, split=y.split), keeps)


def _added(t: Trace, spec: WindowAttention, q: Tensor, windows: Size, sides: tuple[Size, Size], d_head: Size) -> Tensor:
    """[windows * heads * places, places]: of each query's products with the vectors of both distances the sum."""
    many = windows * spec.n_heads
    # Copies in another order, where that is none: of rows wherever there are several heads, of columns in one window.
    copies = at_least(many, 2), (1 - at_least(windows, 2)) * at_least(spec.n_heads, 2)
    found = [
        _along(t, axis, spec, q, many, (n, other), d_head, copied)
        for axis, n, other, copied in zip(("row", "column"), sides, sides[::-1], copies, strict=True)
    ]
    places = sides[0] * sides[1]
    own = t.made(many * places, places, *found, split="tensor")

    def keeps(tape: Tape, of_rows: Storage, of_columns: Storage) -> Storage:
        made = tape.like(of_rows, of_columns)
        return Storage(own.elements, made.dtype, made.grad, "tensor")

    t.op("distances_add", "elementwise", "add", tuple(found), (own,), keeps=keeps)
    return own


def _along(
    t: Trace,
    axis: str,
    spec: WindowAttention,
    q: Tensor,
    many: Size,
    sides: tuple[Size, Size],
    d_head: Size,
    copied: Size,
) -> Tensor:
    """Products of each query with the vectors of its distances from all places along one axis, n of them."""
    assert spec.axes is not None
    n, other = sides
    table = t.weight(f"{axis}_distance.weight", 2 * spec.axes - 1, d_head, of="positional")
    vectors = t.gather(f"{axis}_distance", (table,), n * n, d_head, of="positional")
    shape = Matmul(many * other, n, d_head, n, weighed=False)

    def keeps(tape: Tape, queries: Storage, of: Storage) -> Storage:
        if isinstance(copied, int):
            queries = tape.like(queries) if copied else queries
        elif of.grad:
            tape.keep(Storage(copied * q.elements, queries.dtype, False, queries.split), "copy of queries")
        return tape.product(queries, of, many * other * n * n)

    rows = many * n * other
    # Linear, of weights that are looked up: no part of the core that selective checkpointing computes again.
    return product(t, f"by_{axis}", q, vectors, rows, n, shape, 2 * rows * n * d_head, kind="linear", keeps=keeps)
