"""Attention on a page: the twin of `calc.blocks.page_attention`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Buckets, PageAttention
from reference_models.blocks.relative import bucket_of
from reference_models.step import Step, recomputed
from reference_models.support import supported

ALPHA = 32
"""What scores are divided by before their largest is taken off (Ding et al. 2021, arXiv:2105.13290)."""


class OnPage(nn.Module):
    """Every vector sees all others; `step.relative` gives the numbers of distances of each page."""

    name = "attention"

    def __init__(self, spec: PageAttention, d_model: int) -> None:
        super().__init__()
        supported(spec, "n_heads", "d_head", "buckets", "box_buckets")
        self.spec = spec
        width = spec.n_heads * spec.d_head
        for name in ("q_proj", "k_proj", "v_proj"):
            self.add_module(name, nn.Linear(d_model, width))
        self.o_proj = nn.Linear(width, d_model)

    def new_cache(self, length: int | None) -> None:
        """Tokens see those to come, so nothing is kept."""

    def forward(self, x: Tensor, step: Step, cache: Any = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape."""
        places, root = torch.arange(x.shape[1], device=x.device), self.spec.d_head**0.5
        bias = None if step.relative is None else step.relative(places, places, causal=False)
        q, k, v = (self._heads(self.get_submodule(f"{name}_proj")(x)) for name in "qkv")

        def core(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            scores = q @ k.transpose(-1, -2)
            if bias is not None:
                scores += bias / root
            if step.keep is not None:
                hidden = torch.zeros_like(step.keep, dtype=x.dtype).masked_fill(~step.keep, torch.finfo(x.dtype).min)
                scores = scores + hidden[:, None, None]
            scores = scores / ALPHA
            shares = ((scores - scores.amax(-1, keepdim=True)) * ALPHA).softmax(-1)
            return F.dropout(shares, step.dropout) @ v

        q = q / root
        y = recomputed(core, q, k, v) if step.checkpointing == "selective" else core(q, k, v)
        return self.o_proj(y.transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        """[batch, seq, n_heads * d_head] -> [batch, n_heads, seq, d_head]."""
        return x.unflatten(-1, (self.spec.n_heads, -1)).transpose(1, 2)


class _Bias(nn.Module):
    """Numbers of buckets, [n_heads, n_buckets]."""

    def __init__(self, n_heads: int, n_buckets: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_heads, n_buckets).normal_(std=0.02))


def add_page_tables(stack: nn.Module, spec: PageAttention) -> None:
    """The tables that all layers of a stack share."""
    if spec.buckets is not None:
        stack.add_module("relative_bias", _Bias(spec.n_heads, spec.buckets.n_buckets))
    if spec.box_buckets is not None:
        for name in ("across_bias", "down_bias"):
            stack.add_module(name, _Bias(spec.n_heads, spec.box_buckets.n_buckets))


@torch.no_grad()
def page_bias(stack: Any, spec: PageAttention, step: Step) -> Tensor | None:
    """[batch, n_heads, seq, seq] of where `step.page` says that vectors stand; no gradient reaches the tables."""
    if spec.buckets is None or step.page is None:
        return None
    places, boxes = step.page
    found = _numbers(stack.relative_bias, places, spec.buckets)
    if spec.box_buckets is None:
        return found
    buckets = Buckets(n_buckets=spec.box_buckets.n_buckets, max_distance=spec.box_buckets.max_distance)
    left, lower = boxes[..., 0], boxes[..., 3]
    return found + (_numbers(stack.across_bias, left, buckets) + _numbers(stack.down_bias, lower, buckets))


def _numbers(table: _Bias, places: Tensor, buckets: Buckets) -> Tensor:
    """places [batch, seq] -> [batch, n_heads, seq, seq], by key minus query."""
    bucket = bucket_of(places[:, None] - places[..., None], buckets, causal=False)
    return table.weight.t()[bucket].permute(0, 3, 1, 2).contiguous()
