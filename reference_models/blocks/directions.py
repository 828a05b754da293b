"""Attention within windows by direction alone, and numbers of how patches lie that two layers give (Swin v2).

Source: Liu et al. 2022 (arXiv:2111.09883, section 3).
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import WindowAttention
from reference_models.blocks.patches import Table
from reference_models.step import Step, recomputed

MOST = math.log(100)
"""Of what scores are multiplied with, the logarithm."""
REACH, NUMBERS = 8, 16
"""Places from one end of a window to the other, ahead of their logarithm; the most that is added to a score."""


def add_directions(attention: Any, spec: WindowAttention, d_relative_bias: int) -> None:
    """A number of each head for its scores, and two dense layers."""
    attention.logit_scale = Table(spec.n_heads)
    attention.relative_bias1 = nn.Linear(2, d_relative_bias)
    attention.relative_bias2 = nn.Linear(d_relative_bias, spec.n_heads, bias=False)


def made_bias(attention: Any, side: int) -> Tensor:
    """[1, n_heads, side^2, side^2]: what is added to the score of each query and key."""
    from reference_models.blocks.windows import relative_positions

    weight = attention.relative_bias1.weight
    at = torch.arange(1 - side, side, device=weight.device) * (REACH / max(side - 1, 1))
    at = torch.sign(at) * torch.log2(at.abs() + 1) / math.log2(REACH)
    ways = torch.stack(torch.meshgrid(at, at, indexing="ij"), -1).flatten(0, 1).to(weight.dtype)
    made = attention.relative_bias2(F.relu(attention.relative_bias1(ways), inplace=True))
    found = made[relative_positions(side, weight.device)].permute(2, 0, 1).contiguous()
    return NUMBERS * found.sigmoid()[None]


def by_direction(attention: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, step: Step) -> Tensor:
    """q, k, v [windows, n_heads, side^2, d_head] -> the same shape."""
    q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
    scale = attention.logit_scale.weight.clamp(max=MOST).exp()[:, None, None]

    def core(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        shares = (q @ k.transpose(-1, -2) * scale + bias).softmax(-1)
        return F.dropout(shares, step.dropout) @ v

    return recomputed(core, q, k, v) if step.checkpointing == "selective" else core(q, k, v)
