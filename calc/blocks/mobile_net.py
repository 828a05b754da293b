"""MobileNet-v5: blocks of convolutions and of attention over a picture's map, and an adapter that fuses two maps.

Source: timm 1.0.31, timm/models/mobilenetv5.py, _efficientnet_blocks.py and layers/attention2d.py, whose names weights
have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from calc.blocks.shared_keys import shared_attention
from calc.errors import Refused
from calc.sizes import Size, exact_div
from calc.spec import MobileNet, MobileStage
from calc.spec.load import Load
from calc.trace.primitives.map_norm import map_norm
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace

_OF_PAIRS = 2
"""How many times as wide the block behind each attention is inside."""


@dataclass(frozen=True, slots=True)
class Map:
    """x [pictures * rows * columns, channels]."""

    x: Tensor
    pictures: Size
    rows: Size
    columns: Size

    @property
    def places(self) -> Size:
        """Of all pictures."""
        return self.pictures * self.rows * self.columns


def eyes(t: Trace, spec: MobileNet, load: Load) -> Tensor:
    """load.images pictures -> vectors [images * left * left, d_out]; none where decoding has found them seen.

    FLOPs 2 * places * d_out * d_in / groups * kernel of each convolution, places being those of its result, and those
    of attention. Errors: Refused for sides that halves and means leave a rest of.
    """
    rows, columns = (spec.side, spec.side) if load.image is None else load.image
    for side in (rows, columns):
        if isinstance(side, int) and side % spec.whole:
            raise Refused("image", f"sides of a multiple of {spec.whole} pixels", side)
    n: Size = 0 if load.decode else load.images
    with t.part("eyes", of="other", component="vision", role="pictures") as out:
        at = Map(t.constant(n * rows * columns, 3, split="stream"), n, rows, columns)
        at = _convolved(t, "conv_stem", at, spec.stem, 3, stride=2, bias=True)
        ends: list[Map] = []
        for i, stage in enumerate(spec.stages):
            at = _stage(t, f"blocks.{i}", stage, at)
            ends.append(at)
        out.append(_fused(t, spec, *ends[-2:]))
    return out[0]


def _stage(t: Trace, path: str, spec: MobileStage, at: Map) -> Map:
    n = 0
    for kernel, expansion in spec.edges:
        with t.part(f"{path}.{n}", at.x, of="other") as out:
            at = _edge(t, spec.n_channels, at, kernel, expansion, stride=1 if n else 2)
            out.append(at.x)
        n += 1
    for start, middle, expansion in spec.inverted:
        with t.part(f"{path}.{n}", at.x, of="other") as out:
            at = _inverted(t, spec.n_channels, at, start, middle, expansion, stride=1 if n else 2)
            out.append(at.x)
        n += 1
    for _ in range(spec.pairs):
        with t.part(f"{path}.{n}", at.x, of="attention") as out:
            at = _attention(t, spec, at)
            out.append(at.x)
        with t.part(f"{path}.{n + 1}", at.x, of="other") as out:
            at = _inverted(t, spec.n_channels, at, 0, 0, _OF_PAIRS)
            out.append(at.x)
        n += 2
    return at


def _edge(t: Trace, d_out: int, at: Map, kernel: int, expansion: int, *, stride: int) -> Map:
    """A kernel of all channels that widens them, and a matrix back."""
    made = _convolution(t, "conv_exp", at, expansion * at.x.width, kernel, stride)
    x = t.activation("act1", "gelu_tanh", map_norm(t, "bn1", made.x))
    made = _convolution(t, "conv_pwl", replace(made, x=x), d_out, 1)
    return _added(t, at, replace(made, x=map_norm(t, "bn2", made.x)), stride)


def _inverted(
    t: Trace, d_out: int, at: Map, start: int, middle: int, expansion: int, *, stride: int = 1, alone: bool = False
) -> Map:
    """A kernel of each channel's own, a matrix that widens them, such a kernel again, and a matrix back. alone: without
    a learned factor of the result, and without adding what was read."""
    made, inner = at, expansion * at.x.width
    if start:
        made = _convolved(t, "dw_start", made, made.x.width, start, grouped=True, activated=False)
    made = _convolved(t, "pw_exp", made, inner, 1)
    if middle:
        made = _convolved(t, "dw_mid", made, inner, middle, stride=stride, grouped=True)
    made = _convolved(t, "pw_proj", made, d_out, 1, activated=False)
    return made if alone else _scaled(t, at, made, stride)


def _attention(t: Trace, spec: MobileStage, at: Map) -> Map:
    """Queries of all places and heads, and keys and values that all heads share."""
    read = replace(at, x=map_norm(t, "norm", at.x))
    with t.part("attn", read.x, of="attention") as out:
        q = _projected(t, "query", read, spec.n_heads * spec.d_head)
        k, v = (_projected(t, name, read, spec.d_head, spec.narrowing) for name in ("key", "value"))
        places = q.rows * q.columns, k.rows * k.columns
        x = shared_attention(t, q.x, k.x, v.x, spec.n_heads, q.pictures, places)
        out.append(_projected(t, "output", replace(q, x=x), at.x.width).x)
    return _scaled(t, at, replace(at, x=out[0]), 1)


def _projected(t: Trace, name: str, at: Map, d_out: int, narrowing: int = 0) -> Map:
    """By a matrix, ahead of which a kernel of each channel's own may halve rows and columns."""
    with t.part(name, at.x, of="attention") as out:
        if narrowing:
            at = _convolution(t, "down_conv", at, at.x.width, narrowing, 2, grouped=True)
            at = replace(at, x=map_norm(t, "norm", at.x))
        at = _convolution(t, "proj", at, d_out, 1)
        out.append(at.x)
    return at


def _fused(t: Trace, spec: MobileNet, large: Map, small: Map) -> Tensor:
    """Both maps side by side, the smaller one's vectors four times each, through a block and a mean."""
    width = large.x.width + small.x.width
    with t.part("msfa", large.x, small.x, of="other") as out:
        at = replace(large, x=t.joined(large.x, small.x, rows=large.places, width=width))
        with t.part("ffn", at.x, of="other") as inner:
            at = _inverted(t, spec.d_out, at, 0, 0, spec.expansion, alone=True)
            inner.append(at.x)
        left = replace(at, rows=spec.left, columns=spec.left)
        if (at.rows, at.columns) != (spec.left, spec.left):
            left = replace(left, x=t.neighbours("pool", at.x, left.places, largest=False))
        out.append(map_norm(t, "norm", left.x))
    return out[0]


def _convolved(
    t: Trace,
    name: str,
    at: Map,
    d_out: Size,
    kernel: int,
    *,
    stride: int = 1,
    grouped: bool = False,
    activated: bool = True,
    bias: bool = False,
) -> Map:
    """A convolution, its norm and its activation."""
    with t.part(name, at.x, of="other") as out:
        at = _convolution(t, "conv", at, d_out, kernel, stride, grouped=grouped, bias=bias)
        x = map_norm(t, "bn", at.x)
        out.append(t.activation("act", "gelu_tanh", x) if activated else x)
    return replace(at, x=out[0])


def _convolution(
    t: Trace,
    name: str,
    at: Map,
    d_out: Size,
    kernel: int,
    stride: int = 1,
    *,
    grouped: bool = False,
    bias: bool = False,
) -> Map:
    """As many places as there are, or half as many rows and columns: then zeros stand around a copy of them, so that
    the last kernel fits."""
    made = at
    if stride > 1:
        rows, columns = (side + kernel - stride for side in (at.rows, at.columns))
        at = replace(at, x=t.joined(at.x, rows=at.pictures * rows * columns, width=at.x.width))
        made = Map(at.x, at.pictures, exact_div(at.rows, stride), exact_div(at.columns, stride))
    groups = at.x.width if grouped else 1
    x = t.convolution(name, at.x, d_out, (kernel, kernel), made.places, groups=groups, bias=bias)
    return replace(made, x=x)


def _scaled(t: Trace, at: Map, made: Map, stride: int) -> Map:
    """made times a learned factor of each channel, and at added where both have one shape."""
    x = t.weighed("layer_scale", made.x, key="layer_scale.gamma", of="other")
    return _added(t, at, replace(made, x=x), stride)


def _added(t: Trace, at: Map, made: Map, stride: int) -> Map:
    same = stride == 1 and at.x.width == made.x.width
    return replace(made, x=t.add("add", made.x, at.x)) if same else made
