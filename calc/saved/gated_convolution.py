"""What the gated short convolution keeps."""

from __future__ import annotations

from calc.load import Load
from calc.saved.recurrence import check, short_convolution
from calc.saved.tape import Tape, Tensor
from calc.sizes import Size
from calc.spec import GatedConvolution


def gated_convolution(tape: Tape, spec: GatedConvolution, d_model: Size, x: Tensor, load: Load) -> Tensor:
    """x [batch, seq, d_model]. All three of what is projected are parts of one tensor."""
    check(tape, "GatedConvolution")
    one = load.tokens * d_model
    whole = tape.linear("in_proj", x, load.tokens, d_model, 3 * d_model, "tensor")
    b, c, x = (whole.part(one) for _ in "bcx")
    with tape.at("gate_in"):
        mixed = tape.times(b, x)
    mixed = short_convolution(tape, mixed, d_model, spec.d_conv, load, activated=False)
    with tape.at("gate_out"):
        mixed = tape.times(c, mixed)
    return tape.linear("out_proj", mixed, load.tokens, d_model, d_model)
