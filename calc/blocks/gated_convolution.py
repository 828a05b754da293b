"""The gated short convolution: two products around a filter for each channel."""

from __future__ import annotations

from calc.blocks.surroundings import Surroundings
from calc.spec import GatedConvolution
from calc.spec.load import Load
from calc.trace.primitives.short_convolution import short_convolution
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def gated_convolution(t: Trace, spec: GatedConvolution, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """x [batch * seq, d_model] -> the same, 8 * d_model^2 FLOPs a token beside the convolution's."""
    whole = t.linear("in_proj", x, 3 * x.width, bias=spec.bias, split="tensor")
    before, after, inner = (whole.columns(x.width) for _ in range(3))
    mixed = t.times("gate_in", before, inner)
    mixed = short_convolution(t, "conv", mixed, spec.d_conv, load, bias=spec.bias, activated=False)
    return t.linear("out_proj", t.times("gate_out", after, mixed), x.width, bias=spec.bias)
