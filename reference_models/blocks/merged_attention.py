"""Attention that reads an encoder's vectors beside its own tokens, with the same matrices (T5Gemma 2), the twin of
`calc.blocks.merged_attention`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reference_models.blocks.attend import split
from reference_models.blocks.attention_inputs import heads_in
from reference_models.cache import Fixed, LayerCache, Several
from reference_models.step import Step


def with_source(
    attention: Any, k: Tensor, v: Tensor, mask: Tensor, step: Step, cache: LayerCache | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Keys, values and mask [batch or 1, 1, seq, keys] of the tokens, and behind them those of the source."""
    held = cache.parts["source"] if isinstance(cache, Several) else None
    if step.source is not None:
        keys = heads_in(attention, attention.k_proj(step.source), attention.n_kv_heads, "k_norm")
        values = split(attention.v_proj(step.source), attention.n_kv_heads)
        if isinstance(held, Fixed):
            held.set(k=keys, v=values)
    elif isinstance(held, Fixed) and held.state:
        keys, values = held.state["k"], held.state["v"]
    else:
        raise ValueError("source: expected an encoder's result or a cache that holds its keys, found none")
    seen = mask.new_ones(len(mask), 1, mask.shape[2], keys.shape[2])
    if step.source_keep is not None:
        seen = step.source_keep[:, None, None].expand(-1, 1, mask.shape[2], -1)
        mask = mask.expand(len(seen), -1, -1, -1)
    return torch.cat([k, keys], 2), torch.cat([v, values], 2), torch.cat([mask, seen], 3)
