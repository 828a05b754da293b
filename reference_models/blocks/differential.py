"""Differential attention: what is left of one head when another is taken off it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from calc.spec import Norm
from reference_models.blocks.linear import NormLayer
from reference_models.step import Step


class Difference(nn.Module):
    """The second half of the heads off the first, times a learned number that starts higher in deeper layers.

    Source: Ye et al. 2024 (arXiv:2410.05258), equations 1 to 3, as in transformers 5.23,
    models/diffllama/modeling_diffllama.py.
    """

    def __init__(self, norm: Norm, d_head: int) -> None:
        super().__init__()
        for name in ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"):
            self.register_parameter(name, nn.Parameter(0.1 * torch.randn(d_head)))
        self.norm = NormLayer(norm, (2 * d_head,))

    def forward(self, first: Tensor, second: Tensor, dtype: torch.dtype, step: Step) -> Tensor:
        """first, second [batch, heads, seq, d_head], of either half of the values, -> [batch, seq, heads * d_head].

        dtype: of the queries.
        """
        start = 0.8 - 0.6 * math.exp(-0.3 * step.layer)
        a, b = torch.cat([first.transpose(1, 2), second.transpose(1, 2)], dim=-1).chunk(2, dim=2)
        factor = self._power("1").to(dtype) - self._power("2").to(dtype) + start
        return ((1 - start) * self.norm(a - factor * b)).flatten(2)

    def _power(self, which: str) -> Tensor:
        q, k = self.get_parameter(f"lambda_q{which}"), self.get_parameter(f"lambda_k{which}")
        return (q * k).sum(-1, dtype=torch.float32).exp()


def halves(v: Tensor) -> tuple[Tensor, Tensor]:
    """v [batch, kv_heads, tokens, d] -> the same twice: the first half of the heads for both halves, and the second."""
    first, second = (half.repeat(1, 2, 1, 1) for half in v.chunk(2, dim=1))
    return first, second
