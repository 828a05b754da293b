"""The gated short convolution: two products around a filter for each channel."""

from __future__ import annotations

from calc.blocks.linear import elementwise, linear
from calc.blocks.short_convolution import short_convolution
from calc.load import Load
from calc.op import Part
from calc.sizes import Size
from calc.spec import GatedConvolution


def gated_convolution(spec: GatedConvolution, d_model: Size, load: Load) -> Part:
    """x [batch, seq, d_model] -> the same, 8 * d_model^2 FLOPs a token beside the convolution's."""
    one = load.tokens * d_model
    body = (
        linear("in_proj", load.tokens, d_model, 3 * d_model, "ssm", bias=spec.bias),
        elementwise("gate_in", "ssm", "scale", 2 * one, one),
        short_convolution(d_model, spec.d_conv, load, bias=spec.bias),
        elementwise("gate_out", "ssm", "scale", 2 * one, one, from_chain=one),
        linear("out_proj", load.tokens, d_model, d_model, "ssm", bias=spec.bias),
    )
    return Part("gated_convolution", body)
