"""The convolution that a Conformer's layer has beside its attention."""

from __future__ import annotations

from pydantic import Field

from calc.spec.channels import Activation
from calc.spec.fields import Node


class ConvolutionModule(Node):
    """Twice as wide and gated, then one kernel a channel over the sequence, batch norm, and back (Gulati et al. 2020,
    arXiv:2005.08100, section 2.2).

    kernel: steps that one channel's kernel spans; the sequence is padded so that it keeps its length.
    bias: of all three convolutions.
    """

    kernel: int = Field(default=31, gt=0, le=10**4)
    bias: bool = False
    activation: Activation = "silu"
