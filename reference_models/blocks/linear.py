"""Norms, activations and dense layers: what every block is made of."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Norm

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_fast": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "relu2": lambda x: F.relu(x).square(),
    "silu": F.silu,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "tanh": torch.tanh,
}
"""The three tanh approximations of GELU differ only in how they are written down."""


class NormLayer(nn.Module):
    """LayerNorm or RMSNorm over the last axis, computed in float32. shape: of the weight, its last axis the norm's."""

    def __init__(self, spec: Norm, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.spec = spec
        if spec.affine:
            self.weight = nn.Parameter(torch.zeros(shape) if spec.unit_offset else torch.ones(shape))
        if spec.bias:
            self.bias = nn.Parameter(torch.zeros(shape))

    def forward(self, x: Tensor) -> Tensor:
        """x [..., width] -> the same shape and dtype."""
        y = wide(x)
        if self.spec.kind == "layernorm":
            y = y - y.mean(-1, keepdim=True)
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.spec.eps)
        if self.spec.affine:
            y = y * (wide(self.weight) + (1.0 if self.spec.unit_offset else 0.0))
        if self.spec.bias:
            y = y + wide(self.bias)
        return y.to(x.dtype)


def wide(x: Tensor) -> Tensor:
    """x in float32, or as it is where it holds more: what half precision would round too coarsely."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def softcap(x: Tensor, cap: float | None) -> Tensor:
    """cap * tanh(x / cap): almost x where it is small, never past the cap (Gemma 2)."""
    return x if cap is None else cap * torch.tanh(x / cap)
