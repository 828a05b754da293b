"""Where new inputs stand: the step that the front of a model starts from, behind what its cache has seen."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from calc.spec import Embedding
from reference_models.cache import Cache
from reference_models.step import Step


def first_step(front: Any, inputs: Tensor, cache: Cache | None, keep: Tensor | None) -> Step:
    """Positions and padding of the new inputs [batch, seq], after those that the cache has seen.

    front: the description of what reads them. keep: as in `Model.forward`. Errors: ValueError for more tokens than the
    front's table of positions has rows.
    """
    start, seq = 0 if cache is None else cache.length, inputs.shape[1]
    if keep is None and isinstance(front, Embedding) and front.n_positions is not None and not inputs.is_meta:
        most = front.n_positions - front.position_offset
        if start + seq > most:
            expected = f"at most {most:,} tokens, the rows of its table of positions"
            raise ValueError(f"inputs: expected {expected}, found {start + seq:,}")
    if keep is None and (cache is None or cache.keep is None):
        return Step(positions=torch.arange(start, start + seq, device=inputs.device)[None], start=start)
    new = torch.ones(len(inputs), seq, dtype=torch.bool, device=inputs.device) if keep is None else keep.bool()
    before = new.new_ones(len(inputs), start) if cache is None or cache.keep is None else cache.keep
    whole = torch.cat([before, new], dim=1)
    return Step(positions=(whole.cumsum(1) - 1).clamp(min=0)[:, start:], start=start, keep=whole)


def step_at(inputs: Tensor, at: Tensor, keep: Tensor | None) -> Step:
    """As `first_step`, of tokens that come after as many as the tensor `at` holds.

    Errors: ValueError beside padding.
    """
    if keep is not None:
        raise ValueError("keep: expected none beside `at`, since padding is as long as what came before")
    return Step(positions=(at + torch.arange(inputs.shape[1], device=inputs.device))[None], start=at)
