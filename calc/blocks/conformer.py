"""What a Conformer adds to a layer: its convolution module."""

from __future__ import annotations

from calc.spec import ConvolutionModule
from calc.spec.load import Load
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def convolution_module(t: Trace, spec: ConvolutionModule, x: Tensor, load: Load) -> Tensor:
    """x [tokens, d_model] -> the same, 2 * tokens * d_model * (3 * d_model + kernel) FLOPs (Gulati et al. 2020,
    arXiv:2005.08100, section 2.2): twice as wide and gated, one kernel a channel, batch norm, and back."""
    d_model, tokens = x.width, x.rows
    x = t.convolution("pointwise_in", x, 2 * d_model, (1,), tokens, bias=spec.bias)
    x = t.glu("glu", x)
    # The zeros around each sequence make a copy; no kernel is counted for it.
    padded = t.joined(x, rows=load.batch * (load.seq + spec.kernel - 1), width=d_model)
    x = t.convolution("depthwise", padded, d_model, (spec.kernel,), tokens, groups=d_model, bias=spec.bias)
    x = t.activation("activation", spec.activation, t.batch_norm("batch_norm", x))
    return t.convolution("pointwise_out", x, d_model, (1,), tokens, bias=spec.bias)
