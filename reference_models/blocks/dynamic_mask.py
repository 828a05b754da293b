"""A number for each key, made of its values, which every query adds to its scores, the twin of
`calc.blocks.dynamic_mask`.

Source: transformers 5.23, models/doge/modeling_doge.py, DogeAttention.prepare_dynamic_mask.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn


class DynamicMask(nn.Module):
    """What is added to the scores of all heads; of more than `keep` keys a query sees those of the largest numbers."""

    def __init__(self, keep: int, n_heads: int, n_kv_heads: int, d_value: int, *, bias: bool) -> None:
        super().__init__()
        self.keep, self.groups = keep, n_heads // n_kv_heads
        self.proj = nn.Linear(n_kv_heads * d_value, n_kv_heads, bias=bias)
        self.decay = nn.Parameter(torch.zeros(n_kv_heads))

    def forward(self, v: Tensor, allowed: Tensor, dtype: torch.dtype) -> Tensor:
        """v [batch, n_kv_heads, keys, d_value], allowed [batch or 1, 1, seq, keys] -> [batch, n_heads, seq, keys], the
        smallest number of `dtype` where a query does not attend."""
        smallest, seq = torch.finfo(dtype).min, allowed.shape[2]
        numbers = torch.exp(self.decay * F.softplus(self.proj(v.transpose(1, 2).flatten(2))))
        mask = numbers.transpose(1, 2)[:, :, None].expand(-1, -1, seq, -1)
        mask = mask.masked_fill(~allowed.expand(len(v), -1, -1, -1), smallest)
        if mask.shape[-1] > self.keep:
            seen = torch.zeros_like(mask).scatter(-1, mask.detach().topk(self.keep, sorted=False).indices, 1.0)
            mask = mask.masked_fill(seen == 0, smallest)
        return mask.repeat_interleave(self.groups, dim=1) if self.groups > 1 else mask
