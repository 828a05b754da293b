"""Convolutions in layers: a Conformer's, DeBERTa-v2's beside its first layer, and those that shorten a sequence."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.attention import Attention
from calc.spec.channels import Activation
from calc.spec.fields import Node
from calc.spec.norm import Norm


class ConvolutionModule(Node):
    """Twice as wide and gated, then one kernel a channel over the sequence, a norm, and back (Gulati et al. 2020,
    arXiv:2005.08100, section 2.2).

    kernel: steps that one channel's kernel spans; the sequence is padded so that it keeps its length.
    causal: it is padded at its beginning alone, so that no step sees those to come. norm: over a step's channels; None:
    a batch norm. bias: of all three convolutions.
    cut: dense matrices stand in place of convolutions that span one step, and what the kernels give is cut to an
    interval from -cut to cut (Gemma 3n); None: neither.
    """

    kernel: int = Field(default=31, gt=0, le=10**4)
    causal: bool = False
    norm: Norm | None = None
    bias: bool = False
    activation: Activation = "silu"
    cut: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _cut(self) -> Self:
        if self.cut is not None and (not self.causal or self.norm is None or self.bias):
            raise Refused(
                "cut", "null, unless zeros stand at the beginning, a norm behind it, without biases", self.cut
            )
        return self

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
    activation: Activation = "tanh"


class Shortened(Node):
    """The first half of a layer that reads fewer steps: two convolutions with a stride, twice as wide and gated, each
    of the stream through a norm of its own; the first gives what the stream goes on with, and to it is added attention
    over what the second gives (SeamlessM4T's adapter: Barrault et al. 2023, arXiv:2308.11596, section 4.2.1;
    transformers 5.23, models/seamless_m4t, SeamlessM4TConformerAdapterLayer).

    padding: zeros on either side.
    """

    kernel: int = Field(gt=0, le=10**4)
    stride: int = Field(gt=0, le=10**4)
    padding: int = Field(default=0, ge=0, le=10**4)
    attention: Attention
