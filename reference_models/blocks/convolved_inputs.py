"""Queries, keys and values through convolutions; the twin of `calc.blocks.convolved_inputs`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Convolved
from reference_models.blocks.attend import split
from reference_models.blocks.short_convolution import without_padding
from reference_models.cache import LayerCache
from reference_models.step import Step


def add_convolved(attention: Any, spec: Convolved, d_model: int, *, bias: bool) -> None:
    """Give an attention its projections, convolutions and scales of keys."""
    queries, keys = attention.widths["q"], attention.widths["k"]
    wide, heads = queries + keys, attention.n_heads + attention.n_kv_heads
    widths = {"q_proj": queries, "k_proj": keys, "v_proj_current": keys // 2, "v_proj_delayed": keys // 2}
    for name, width in widths.items():
        attention.add_module(name, nn.Linear(d_model, width, bias=bias))
    attention.conv = nn.Conv1d(wide, wide, spec.d_conv, groups=wide)
    attention.head_conv = nn.Conv1d(wide, wide, spec.d_head_conv, groups=heads)
    attention.key_scale = nn.Parameter(torch.ones(attention.n_kv_heads))


def convolved_inputs(attention: Any, x: Tensor, step: Step, cache: LayerCache | None) -> tuple[Tensor, Tensor, Tensor]:
    """x [batch, seq, d_model] -> q [batch, n_heads, seq, d_head]; k, v [batch, n_kv_heads, seq, d_head].

    The cache holds `both` [batch, channels, d_conv + d_head_conv - 2] and `delayed` [batch, n_kv_heads * d_head / 2].
    """
    x = without_padding(x, step)
    state = {} if cache is None else cache.state
    q, k = attention.q_proj(x), attention.k_proj(x)
    both = torch.cat([q, k], dim=-1).transpose(1, 2)
    group = attention.n_heads // attention.n_kv_heads
    mean_q = q.unflatten(-1, (-1, attention.d_head))
    mean_q = (mean_q + k.unflatten(-1, (-1, attention.d_head)).repeat_interleave(group, dim=2)) * 0.5
    mean_k = mean_q.unflatten(2, (-1, group)).mean(3)

    before = attention.conv.kernel_size[0] + attention.head_conv.kernel_size[0] - 2
    both = torch.cat([state["both"], both], dim=-1) if "both" in state else F.pad(both, (before, 0))
    state["both"] = both[..., -before:].clone()
    both = attention.head_conv(attention.conv(both)).transpose(1, 2)
    q = both[..., : q.shape[-1]].unflatten(-1, (-1, attention.d_head)) + mean_q
    k = both[..., q.shape[2] * q.shape[3] :].unflatten(-1, (-1, attention.d_head)) + mean_k

    v = _values(attention, x, state)
    # What convolutions give lies channel by channel, which PyTorch's kernels do not take.
    k = (_to_length(k) * attention.key_scale[:, None]).contiguous()
    return _to_length(q).contiguous().transpose(1, 2), k.transpose(1, 2), split(v, attention.n_kv_heads)


def _values(attention: Any, x: Tensor, state: dict[str, Tensor]) -> Tensor:
    """[batch, seq, n_kv_heads * d_head]: half of each token's own values, and half of those of the token before."""
    current, delayed = attention.v_proj_current(x), attention.v_proj_delayed(x)
    first = state.get("delayed")
    if first is None:
        first = attention.v_proj_delayed(x.new_zeros(len(x), 1, x.shape[-1]))[:, 0]
    state["delayed"] = delayed[:, -1].clone()
    return torch.cat([current, torch.cat([first[:, None], delayed[:, :-1]], dim=1)], dim=-1)


def _to_length(x: Tensor) -> Tensor:
    """x [..., d_head] brought to the length sqrt(d_head)."""
    length = x.norm(p=2, dim=-1, keepdim=True).clamp_min(torch.finfo(x.dtype).eps)
    return x * (x.shape[-1] ** 0.5 / length)
