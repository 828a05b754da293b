"""A dense layer with a low-rank update beside it (LoRA: Hu et al. 2021, arXiv:2106.09685)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

LIKE = {"dtype", "device"}


def alike(tensor: Tensor) -> dict[str, Any]:
    """The options that make another tensor in the same format and on the same device."""
    return {name: getattr(tensor, name) for name in LIKE}


class LoraLinear(nn.Module):
    """W x + b + scale * B A x; W and b are those of `base`."""

    def __init__(self, base: nn.Linear, rank: int, scale: float = 1.0) -> None:
        super().__init__()
        self.weight, self.bias, self.scale = base.weight, base.bias, scale
        d_out, d_in = base.weight.shape
        like = alike(base.weight)
        self.lora_A = nn.Linear(d_in, rank, bias=False, **like)
        self.lora_B = nn.Linear(rank, d_out, bias=False, **like)
        nn.init.zeros_(self.lora_B.weight)

    def forward(self, x: Tensor) -> Tensor:
        """x [..., d_in] -> [..., d_out]."""
        return F.linear(x, self.weight, self.bias) + self.scale * self.lora_B(self.lora_A(x))

    def matrix(self, dtype: torch.dtype) -> Tensor:
        """W + scale * B A, [d_out, d_in], from which both halves learn."""
        return (self.weight + self.scale * self.lora_B.weight @ self.lora_A.weight).to(dtype)

    def merged(self) -> nn.Linear:
        """One matrix that computes the same: W + scale * B A."""
        d_out, d_in = self.weight.shape
        whole = nn.Linear(d_in, d_out, bias=self.bias is not None, **alike(self.weight))
        with torch.no_grad():
            whole.weight.copy_(self.matrix(self.weight.dtype))
            if self.bias is not None:
                whole.bias.copy_(self.bias)
        return whole
