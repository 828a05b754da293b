"""Convolutions over sound, ahead of layers and in a Conformer's; and the one beside layers of text."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Convolution, ConvolutionModule, SideConvolution
from reference_models.blocks.linear import ACTIVATIONS, Cut, NormLayer, wide
from reference_models.step import Step
from reference_models.support import supported


class ConvolutionLayer(nn.Module):
    """[batch, d_in, steps] or [batch, d_in, steps, values] -> the same with n_channels and what the stride leaves."""

    def __init__(self, spec: Convolution, d_in: int) -> None:
        super().__init__()
        supported(
            spec,
            *("name", "n_channels", "kernel", "stride", "padding", "dims", "bias", "depthwise", "glu", "norm"),
            *("activation", "behind", "across", "eps"),
        )
        self.spec = spec
        kind: Any = nn.Conv1d if spec.dims == 1 else nn.Conv2d
        groups = d_in if spec.depthwise else 1
        stride = spec.stride if spec.across is None else (spec.stride, spec.across.stride)
        zeros = 0 if spec.behind else spec.padding
        self.conv = kind(d_in, spec.n_channels, spec.kernels, stride, zeros, groups=groups, bias=spec.bias)
        match spec.norm:
            case "cumulative":
                self.norm = CumulativeNorm(spec.n_channels, spec.eps)
            case "layer":
                self.norm = nn.LayerNorm(spec.n_channels)
            case "channel":
                self.norm = nn.GroupNorm(spec.n_channels, spec.n_channels)
            case "batch":
                self.norm = (nn.BatchNorm1d if spec.dims == 1 else nn.BatchNorm2d)(spec.n_channels)

    def forward(self, x: Tensor) -> Tensor:
        if self.spec.behind:
            beside = () if self.spec.across is None else (self.spec.across.padding,) * 2
            x = F.pad(x, (*beside, 0, self.spec.padding))
        x = self.conv(x)
        if self.spec.norm == "cumulative":
            x = self.norm(x.permute(0, 2, 3, 1).contiguous()).permute(0, 3, 1, 2).contiguous()
        elif self.spec.norm == "layer":
            x = self.norm(x.transpose(1, -1)).transpose(1, -1)
        elif self.spec.norm is not None:
            x = self.norm(x)
        if self.spec.glu:
            return F.glu(x, dim=1)
        return x if self.spec.activation is None else ACTIVATIONS[self.spec.activation](x)


class CumulativeNorm(nn.Module):
    """[batch, steps, values, channels], normed over channels and values of all steps so far, times a weight."""

    def __init__(self, n_channels: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(n_channels)), eps

    def forward(self, x: Tensor) -> Tensor:
        """As transformers writes it, operation by operation, in fp32."""
        y, there = wide(x), torch.ones_like(x, dtype=torch.float32)
        counts = there.sum((2, 3), keepdim=True).cumsum(1).clamp(min=1.0)
        mean = y.sum((2, 3), keepdim=True).cumsum(1) / counts
        variance = (y - mean).pow(2).sum((2, 3), keepdim=True).cumsum(1) / counts
        y = (y - mean) * torch.rsqrt(variance + self.eps) * wide(self.weight)
        return (y * there).to(x.dtype)


class ConformerConvolution(nn.Module):
    """Widened and gated, one kernel a channel, a norm, activation, and back (Gulati et al. 2020, figure 2)."""

    name = "convolution"

    def __init__(self, spec: ConvolutionModule, d_model: int) -> None:
        super().__init__()
        supported(spec, "kernel", "causal", "norm", "bias", "activation", "cut")
        self.spec = spec
        self.pointwise_in = self._dense(d_model, 2 * d_model)
        around = spec.kernel // 2 if spec.padded_alike else 0
        self.depthwise = nn.Conv1d(d_model, d_model, spec.kernel, padding=around, groups=d_model, bias=spec.bias)
        if spec.norm is None:
            self.batch_norm = nn.BatchNorm1d(d_model)
        else:
            self.layer_norm = NormLayer(spec.norm, (d_model,))
        self.pointwise_out = self._dense(d_model, d_model)
        if spec.cut is not None:
            self.cut = Cut(spec.cut)

    def _dense(self, d_in: int, d_out: int) -> nn.Module:
        if self.spec.cut is not None:
            return nn.Linear(d_in, d_out, bias=False)
        return nn.Conv1d(d_in, d_out, 1, bias=self.spec.bias)

    def forward(self, x: Tensor, step: Step) -> Tensor:
        """x [batch, seq, d_model] -> the same shape; the sequence is padded so that it keeps its length."""
        if self.spec.cut is not None:
            x = F.glu(self.pointwise_in(x), dim=-1).transpose(1, 2)
            x = self.cut(self.depthwise(F.pad(x, (self.spec.kernel - 1, 0))).transpose(1, 2))
            return self.pointwise_out(ACTIVATIONS[self.spec.activation](self.layer_norm(x)))
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
