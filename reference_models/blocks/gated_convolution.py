"""The gated short convolution of LFM2."""

from __future__ import annotations

from torch import Tensor, nn

from calc.spec import GatedConvolution
from reference_models.blocks.short_convolution import ShortConvolution
from reference_models.cache import Fixed, LayerCache
from reference_models.step import Step
from reference_models.support import supported

FIELDS = ("d_inner", "d_conv", "bias")


class GatedConvolutionMixer(nn.Module):
    """Project to b, c and x at once; convolve b * x; project c times that."""

    name = "gated_convolution"

    def __init__(self, spec: GatedConvolution, d_model: int) -> None:
        super().__init__()
        supported(spec, *FIELDS)
        width = spec.d_inner or d_model
        self.in_proj = nn.Linear(d_model, 3 * width, bias=spec.bias)
        self.conv = ShortConvolution(width, spec.d_conv, bias=spec.bias, activated=False)
        self.out_proj = nn.Linear(width, d_model, bias=spec.bias)

    def new_cache(self, length: int | None) -> LayerCache:
        """The last inputs of the convolution, whatever the length."""
        return Fixed()

    def forward(self, x: Tensor, step: Step, cache: LayerCache | None = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape."""
        b, c, x = self.in_proj(x).chunk(3, dim=-1)
        return self.out_proj(c * self.conv(b * x, step, cache))
