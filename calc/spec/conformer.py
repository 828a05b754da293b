"""Convolutions within a layer: a Conformer's, and DeBERTa-v2's beside its first layer."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from calc.spec.attention import Norm
from calc.spec.channels import Activation
from calc.spec.fields import Node


class ConvolutionModule(Node):
    """Twice as wide and gated, then one kernel a channel over the sequence, a norm, and back (Gulati et al. 2020,
    arXiv:2005.08100, section 2.2).

    kernel: steps that one channel's kernel spans; the sequence is padded so that it keeps its length.
    causal: it is padded at its beginning alone, so that no step sees those to come. norm: over a step's channels; None:
    a batch norm. bias: of all three convolutions.
    """

    kernel: int = Field(default=31, gt=0, le=10**4)
    causal: bool = False
    norm: Norm | None = None
    bias: bool = False
    activation: Activation = "silu"

    @property
    def padded_alike(self) -> bool:
        """Whether there are as many zeros at both ends, which a convolution adds by itself."""
        return not self.causal and self.kernel % 2 == 1


class SideConvolution(Node):
    """A convolution over what entered the stack, activated, added to what leaves the layer, and normed (DeBERTa-v2:
    microsoft/DeBERTa, DeBERTa/deberta/bert.py, ConvLayer).

    kernel: tokens that it spans, an odd number. groups: sets of channels that do not mix.
    """

    kernel: int = Field(default=3, gt=0, le=10**4)
    groups: int = Field(default=1, gt=0, le=2**20)
    activation: Activation | Literal["tanh"] = "tanh"
