"""Attention within a band around each token: the twin of `calc.blocks.band_attention`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import BandAttention
from reference_models.blocks.linear import wide
from reference_models.step import Step, recomputed
from reference_models.support import supported


class InBand(nn.Module):
    """Chunks of keys against themselves, of which each token reads what is near; no token sees all others."""

    name = "attention"

    def __init__(self, spec: BandAttention, d_model: int) -> None:
        super().__init__()
        supported(spec, "n_heads", "d_head", "reach")
        self.spec = spec
        width = spec.n_heads * spec.d_head
        for name in ("q_proj", "k_proj", "v_proj", "q_global", "k_global", "v_global"):
            self.add_module(name, nn.Linear(d_model, width))
        self.o_proj = nn.Linear(width, d_model)

    def new_cache(self, length: int | None) -> None:
        """Tokens see those to come, so nothing is kept."""

    def forward(self, x: Tensor, step: Step, cache: Any = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape.

        Errors: ValueError for a sequence that is not made of whole chunks.
        """
        if x.shape[1] % (2 * self.spec.reach):
            raise ValueError(f"inputs: expected a multiple of {2 * self.spec.reach} vectors, found {x.shape[1]}")
        q, k, v = (self.get_submodule(f"{name}_proj")(x) for name in "qkv")
        q = q * self.spec.d_head**-0.5
        added = self._added(x, step)

        def core(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return self._core(q, k, v, added, step)

        y = recomputed(core, q, k, v) if step.checkpointing == "selective" else core(q, k, v)
        return self.o_proj(y)

    def _core(self, q: Tensor, k: Tensor, v: Tensor, added: Tensor, step: Step) -> Tensor:
        """All [batch, seq, n_heads * d_head], and added [batch or 1, chunks, 1, side] -> as q."""
        reach, heads = self.spec.reach, self.spec.n_heads
        chunked = (self._heads(x).unfold(2, 2 * reach, reach).contiguous() for x in (q, k))
        a, b = (x.flatten(0, 2) for x in chunked)  # [batch * n_heads * chunks, d_head, 2 * reach]
        scores = (a.transpose(1, 2) @ b).unflatten(0, (len(q), heads, -1)) + added[:, None]
        shares = wide(self._near(scores)).softmax(-1).to(v.dtype)
        shares = F.dropout(shares, step.dropout).flatten(0, 2)
        values = F.pad(self._heads(v), (0, 0, reach, reach)).unfold(2, 3 * reach, reach)
        values = values.transpose(3, 4).contiguous().flatten(0, 2)
        y = (shares @ values).unflatten(0, (len(q), heads, -1)).flatten(2, 3)
        return y.transpose(1, 2).flatten(2).clone()

    def _heads(self, x: Tensor) -> Tensor:
        """[batch, seq, n_heads * d_head] -> [batch, n_heads, seq, d_head]."""
        return x.unflatten(-1, (self.spec.n_heads, -1)).transpose(1, 2)

    def _near(self, scores: Tensor) -> Tensor:
        """Scores of chunks -> of each block of reach tokens with that before it, itself and that behind it,
        [batch, n_heads, blocks, reach, 3 * reach], hidden where they are too far."""
        reach = self.spec.reach
        (own, after), (before, last) = (half.split(reach, -1) for half in scores.split(reach, -2))
        own = torch.cat([own, last[:, :, -1:]], 2)
        after, before = F.pad(after, (0, 0, 0, 0, 0, 1)), F.pad(before, (0, 0, 0, 0, 1, 0))
        blocks, place = own.shape[2], torch.arange(3 * reach, device=scores.device)
        far = (place - reach - torch.arange(reach, device=scores.device)[:, None]).abs() > reach
        block = torch.arange(blocks, device=scores.device)[:, None]
        outside = ((block == 0) & (place < reach)) | ((block == blocks - 1) & (place >= 2 * reach))
        hidden = torch.zeros_like(far, dtype=scores.dtype).masked_fill(far, torch.finfo(scores.dtype).min)
        edges = torch.zeros_like(outside, dtype=scores.dtype).masked_fill(outside, torch.finfo(scores.dtype).min)
        return torch.cat([before, own, after], -1) + torch.minimum(hidden, edges[:, None])

    def _added(self, x: Tensor, step: Step) -> Tensor:
        """[batch or 1, chunks, 1, side]: what hides padding from all queries of a chunk."""
        keep = torch.ones((1, x.shape[1]), dtype=torch.bool, device=x.device) if step.keep is None else step.keep
        hidden = torch.zeros_like(keep, dtype=x.dtype).masked_fill(~keep, torch.finfo(x.dtype).min)
        return hidden.unfold(1, 2 * self.spec.reach, self.spec.reach)[:, :, None]
