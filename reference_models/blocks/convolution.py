"""Convolutions over sound, ahead of layers and in a Conformer's; and the one beside layers of text."""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Convolution, ConvolutionModule, SideConvolution
from reference_models.blocks.linear import ACTIVATIONS, NormLayer
from reference_models.step import Step
from reference_models.support import supported


class ConvolutionLayer(nn.Module):
    """[batch, d_in, steps] or [batch, d_in, steps, values] -> the same with n_channels and what the stride leaves."""

    def __init__(self, spec: Convolution, d_in: int) -> None:
        super().__init__()
        supported(
            spec,
            *("name", "n_channels", "kernel", "stride", "padding", "dims", "bias", "depthwise", "glu", "norm"),
            "activation",
        )
        self.spec = spec
        kind = nn.Conv1d if spec.dims == 1 else nn.Conv2d
        groups = d_in if spec.depthwise else 1
        self.conv = kind(d_in, spec.n_channels, spec.kernel, spec.stride, spec.padding, groups=groups, bias=spec.bias)
        match spec.norm:
            case "layer":
                self.norm = nn.LayerNorm(spec.n_channels)
            case "channel":
                self.norm = nn.GroupNorm(spec.n_channels, spec.n_channels)
            case "batch":
                self.norm = (nn.BatchNorm1d if spec.dims == 1 else nn.BatchNorm2d)(spec.n_channels)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        if self.spec.norm == "layer":
            x = self.norm(x.transpose(1, -1)).transpose(1, -1)
        elif self.spec.norm is not None:
            x = self.norm(x)
        if self.spec.glu:
            return F.glu(x, dim=1)
        return x if self.spec.activation is None else ACTIVATIONS[self.spec.activation](x)


class ConformerConvolution(nn.Module):
    """Widened and gated, one kernel a channel, a norm, activation, and back (Gulati et al. 2020, figure 2)."""

    name = "convolution"

    def __init__(self, spec: ConvolutionModule, d_model: int) -> None:
        super().__init__()
        supported(spec, "kernel", "causal", "norm", "bias", "activation")
        self.spec = spec
        self.pointwise_in = nn.Conv1d(d_model, 2 * d_model, 1, bias=spec.bias)
        around = spec.kernel // 2 if spec.padded_alike else 0
        self.depthwise = nn.Conv1d(d_model, d_model, spec.kernel, padding=around, groups=d_model, bias=spec.bias)
        if spec.norm is None:
            self.batch_norm = nn.BatchNorm1d(d_model)
        else:
            self.layer_norm = NormLayer(spec.norm, (d_model,))
        self.pointwise_out = nn.Conv1d(d_model, d_model, 1, bias=spec.bias)

    def forward(self, x: Tensor, step: Step) -> Tensor:
        """x [batch, seq, d_model] -> the same shape; the sequence is padded so that it keeps its length."""
        x = F.glu(self.pointwise_in(x.transpose(1, 2)), dim=1)
        if not self.spec.padded_alike:
            after = 0 if self.spec.causal else self.spec.kernel // 2
            x = F.pad(x, (self.spec.kernel - 1 - after, after))
        x = self.depthwise(x)
        x = self.batch_norm(x) if self.spec.norm is None else self.layer_norm(x.transpose(1, 2)).transpose(1, 2)
        return self.pointwise_out(ACTIVATIONS[self.spec.activation](x)).transpose(1, 2)


class ConvolutionBeside(nn.Module):
    """Of what entered the stack: a convolution over tokens, dropout, and an activation (DeBERTa-v2)."""

    def __init__(self, spec: SideConvolution, d_model: int) -> None:
        super().__init__()
        supported(spec, "kernel", "groups", "activation")
        self.spec = spec
        self.convolution = nn.Conv1d(d_model, d_model, spec.kernel, padding=spec.kernel // 2, groups=spec.groups)

    def forward(self, x: Tensor, dropout: float) -> Tensor:
        """x [batch, seq, d_model] -> the same shape."""
        made = self.convolution(x.transpose(1, 2)).transpose(1, 2)
        return ACTIVATIONS[self.spec.activation](F.dropout(made, dropout))
