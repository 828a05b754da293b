"""Attention within windows of patches, and the merging of patches between two stages (Swin).

Source: Liu et al. 2021 (arXiv:2103.14030, section 3); transformers 5.23, models/swin/modeling_swin.py.
"""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.attention import square_of
from calc.blocks.axis_windows import axis_windows
from calc.blocks.pooled_windows import halved, plain_windows, pooled_attention
from calc.blocks.surroundings import Surroundings
from calc.errors import Refused
from calc.sizes import Size, at_least, ceil_div, exact_div, holds, is_symbolic, minimum
from calc.spec import Merge, Patches, PooledAttention, Stack, WindowAttention
from calc.spec.load import Load
from calc.trace.functions import Attend, Matmul
from calc.trace.op import Moves
from calc.trace.primitives.attend_live import Scoring
from calc.trace.primitives.product import product
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace

Grid = tuple[Size, Size]


def window_attention(t: Trace, spec: WindowAttention, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """x [batch * rows * columns, d] -> the same, over batch * ceil(rows / side) * ceil(columns / side) windows.

    FLOPs of scores and values: 4 * windows * side^4 * d; projections run on what fills windows up too.
    """
    if spec.axes is not None:
        return axis_windows(t, spec, x, load, around)
    if spec.plain or spec.side is None:
        return plain_windows(t, spec, x, load, around)
    rows, columns = around.grid
    windows = load.batch * ceil_div(rows, spec.side) * ceil_div(columns, spec.side)
    places, heads, width = spec.side**2, spec.n_heads, x.width
    d_head = exact_div(width, heads)
    apart = t.joined(x, rows=windows * places, width=width)
    q, k, v = (
        t.linear(f"{name}_proj", apart, width, bias=spec.qkv_bias and not (spec.d_relative_bias and name == "k"))
        for name in "qkv"
    )
    if spec.d_relative_bias is not None:
        y = _by_direction(t, spec, spec.d_relative_bias, q, k, v, windows)
        return t.joined(t.linear("o_proj", y, width, bias=True), rows=x.rows, width=width)
    inside = replace(load, batch=windows, seq=places, context=0)
    table = heads * places * places
    # Each window is told which of its patches only came together by the shift, in a copy of the table.
    shifts = at_least(minimum(rows, columns), spec.side + 1) if spec.shifted else 0
    mask = shifts * windows * table + (1 - shifts) * table
    y = t.attend(
        *(q, k, v),
        Attend(windows * heads, 1, places, places, d_head, d_head, causal=False),
        square_of(inside, heads, heads, places, d_head, d_head),
        2 * windows * heads * places * places,
        Scoring(bias=_bias(t, heads, spec.side), mask=mask),
    )
    y = t.linear("o_proj", y, width, bias=True)
    return t.joined(y, rows=x.rows, width=width)


def _by_direction(
    t: Trace, spec: WindowAttention, d_relative_bias: Size, q: Tensor, k: Tensor, v: Tensor, windows: Size
) -> Tensor:
    """Scores of queries and keys of length 1, times a number of each head, each an operation of its own.

    FLOPs of the numbers that are added to them: 2 * (2 * side - 1)^2 * d_relative_bias * (2 + n_heads).
    """
    assert spec.side is not None, "plain windows have a program of their own"
    heads, places, each = spec.n_heads, spec.side**2, exact_div(q.width, spec.n_heads)
    q, k = t.normalized("directions", q, k, each=heads)
    scale = _scale(t, heads)
    bias = _made_bias(t, d_relative_bias, heads, spec.side)
    groups, pairs = windows * heads, windows * heads * places * places
    shape = Matmul(places, places, each, groups, weighed=False)
    scores = product(t, "scores", q, k, groups * places, places, shape, 2 * pairs * each)
    weights = t.made(groups * places, places, scores)
    t.op("softmax", "elementwise", "softmax", (scores, scale, bias), (weights,))

    def keeps(tape: Tape, q: Storage, k: Storage, v: Storage, scale: Storage, bias: Storage) -> Storage:
        tape.written_out("attention by direction")
        with tape.region("attention", q, k, v):
            with tape.at("scores"):
                made = tape.like(tape.times(tape.product(q, k, pairs), scale), bias)
            with tape.at("softmax"):
                shares = tape.drop(tape.reads_result(made))
            with tape.at("values"):
                return tape.like(tape.product(shares, v, q_elements))

    q_elements, shape = q.elements, Matmul(places, each, places, groups, weighed=False)
    of = (q, k, v, scale, bias)
    return product(t, "values", weights, v, q.rows, q.width, shape, 2 * pairs * each, keeps=keeps, operands=of)


def _scale(t: Trace, heads: Size) -> Tensor:
    """What the scores of each head are multiplied with: e to a learned number, up to 100."""
    weight = t.weight("logit_scale.weight", heads)
    y = t.made(heads, 1, weights=(weight,))

    def keeps(tape: Tape) -> Storage:
        return tape.reads_result(Storage(heads, tape.settings.stream, weight.trainable, "none"))

    t.op("logit_scale", "elementwise", "scale", (), (y,), weights=(weight,), keeps=keeps)
    return y


def _made_bias(t: Trace, d_relative_bias: Size, heads: Size, side: Size) -> Tensor:
    """Numbers [heads * side^2, side^2] of how two patches lie: those of all ways out of two dense layers, looked up."""
    ways = t.constant((2 * side - 1) ** 2, 2)
    inner = t.activation(
        "relative_bias_relu",
        "relu",
        t.linear("relative_bias1", ways, d_relative_bias, bias=True, of="positional", inside=False),
    )
    made = t.linear("relative_bias2", inner, heads, of="positional", inside=False)
    found = t.made(heads * side**2, side**2, made)

    def keeps(tape: Tape, read: Storage) -> Storage:
        if read.grad:
            tape.keep(Storage(side**4, "int64", False, "none"), "relative positions")
        return Storage(found.elements, read.dtype, read.grad, "none")

    t.op("relative_bias_lookup", "gather", "gather", (made,), (found,), of="positional", keeps=keeps)
    return t.activation("relative_bias_sigmoid", "sigmoid", found, of="positional")


def _bias(t: Trace, heads: Size, side: Size) -> Tensor:
    """Numbers [heads * side^2, side^2] of a table with a row for each way in which two patches can lie."""
    weight = t.weight("relative_bias.weight", (2 * side - 1) ** 2, heads, of="positional")
    found = t.made(heads * side**2, side**2, weights=(weight,))

    def keeps(tape: Tape) -> Storage:
        if weight.trainable:
            tape.keep(Storage(side**4, "int64", False, "none"), "relative positions")
        return Storage(found.elements, tape.settings.stream, weight.trainable)

    t.op(
        "relative_bias",
        "gather",
        "gather",
        (),
        (found,),
        weights=(weight,),
        of="positional",
        moves=lambda: Moves(0, found.elements),
        keeps=keeps,
    )
    return found


def merged(
    t: Trace, name: str, spec: Merge | PooledAttention, x: Tensor, load: Load, around: Surroundings
) -> tuple[Tensor, Load]:
    """x [batch * rows * columns, d] -> [batch * ceil(rows / 2) * ceil(columns / 2), d_merged], and the load of these.

    FLOPs: 8 * d * d_merged for each vector that is made. name: of the group of layers that reads them.
    """
    if isinstance(spec, PooledAttention):
        return pooled_attention(t, name, spec, x, load, around)
    rows, columns = (ceil_div(side, 2) for side in around.grid)
    around.grid = rows, columns
    with t.part(f"merges.{name}", x, of="other") as out:
        y = t.joined(x, rows=load.batch * rows * columns, width=4 * x.width)
        if spec.norm_of == "read":
            y = t.norm("norm", spec.norm, y)
        y = t.linear("dense", y, spec.d_merged, inside=False)
        out.append(y if spec.norm_of == "read" else t.norm("norm", spec.norm, y))
    return out[0], replace(load, seq=rows * columns)


def check_grid(spec: Stack, load: Load, sides: Grid) -> None:
    """Refuse a picture that in some stage is smaller than a window: the table that is added to scores is as large as
    the window, which transformers then makes smaller. With positions of patches, those that fill up have none."""
    front = spec.embedding
    of_windows = any(isinstance(each.mixer, WindowAttention) or each.merge is not None for each in spec.layers)
    if not isinstance(front, Patches) or not of_windows:
        return
    if front.filled and front.n_positions is not None and load.image is not None:
        for pixels, patch in zip(load.image, (front.patch_height, front.patch_width), strict=True):
            if not is_symbolic(pixels) and holds(pixels % patch > 0):
                raise Refused("image", f"whole patches of {patch} pixels, whose positions are known", pixels)
    for group in spec.layers:
        if isinstance(group.merge, PooledAttention):
            sides = halved(group.merge, sides)
        else:
            sides = sides if group.merge is None else (ceil_div(sides[0], 2), ceil_div(sides[1], 2))
        mixer, side = group.mixer, 0
        if isinstance(mixer, WindowAttention) and not mixer.plain and mixer.axes is None and mixer.side is not None:
            side = mixer.side
        for patches in sides:
            if not is_symbolic(patches) and not is_symbolic(side) and holds(patches < side):
                expected = f"at least {side} patches, a window, along each side in {group.name}"
                raise Refused("image", expected, f"{patches} patches")
