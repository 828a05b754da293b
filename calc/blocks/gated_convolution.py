"""The gated short convolution: two products around a filter for each channel."""

from __future__ import annotations

from calc.blocks.surroundings import Surroundings
from calc.spec import GatedConvolution
from calc.spec.load import Load
from calc.trace.primitives.short_convolution import short_convolution
from calc.trace.shard import COLUMN, ROW
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def gated_convolution(t: Trace, spec: GatedConvolution, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """x [batch * seq, d_model] -> the same, 8 * d_model * d_inner FLOPs a token beside the convolution's."""
    width = x.width if spec.d_inner is None else spec.d_inner
    whole = t.linear("in_proj", x, 3 * width, bias=spec.bias, shard=COLUMN)
    before, after, inner = (whole.columns(width) for _ in range(3))
    mixed = t.times("gate_in", before, inner)
    mixed = short_convolution(
        t, "conv", mixed, spec.d_conv, load, bias=spec.bias, activated=False, shard=COLUMN, heads=width
    )
    return t.linear("out_proj", t.times("gate_out", after, mixed), x.width, bias=spec.bias, shard=ROW)
