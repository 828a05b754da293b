"""The token before each token, which RWKV mixes into what its matrices read."""

from __future__ import annotations

import torch
from torch import Tensor

from reference_models.blocks.short_convolution import without_padding
from reference_models.cache import LayerCache
from reference_models.step import Step


def shifted(x: Tensor, step: Step, cache: LayerCache | None) -> Tensor:
    """x [batch, seq, d] -> the vector of the token before each, zeros before the first. Padding counts as zeros.

    The cache holds the last token's vector, [batch, 1, d].
    """
    x = without_padding(x, step)
    first = torch.zeros_like(x[:, :1]) if cache is None or "shift" not in cache.state else cache.state["shift"]
    if cache is not None:
        cache.state["shift"] = x[:, -1:].clone()
    return torch.cat([first, x[:, :-1]], dim=1)
