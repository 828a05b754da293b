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
        # Tokens first, so that each projection of several texts copies what it reads, as transformers does.
        q, k, v = (self.get_submodule(f"{name}_proj")(x.transpose(0, 1)).transpose(0, 1) for name in "qkv")
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
        shares = _slanted(F.dropout(shares, step.dropout)).flatten(0, 2)
        values = F.pad(self._heads(v), (0, 0, reach, reach)).unfold(2, 3 * reach, reach)
        values = values.transpose(3, 4).contiguous().flatten(0, 2)
        y = (shares @ values).unflatten(0, (len(q), heads, -1)).flatten(2, 3)
        return y.transpose(1, 2).flatten(2).clone()

    def _heads(self, x: Tensor) -> Tensor:
        """[batch, seq, n_heads * d_head] -> [batch, n_heads, seq, d_head]."""
        return x.unflatten(-1, (self.spec.n_heads, -1)).transpose(1, 2)

    def _near(self, scores: Tensor) -> Tensor:
        """Scores of chunks -> of each token with those in its band, [batch, n_heads, blocks, reach, 2 * reach + 1],
        hidden where there are none."""
        reach = self.spec.reach
        (own, after), (before, last) = (half.split(reach, -1) for half in scores.split(reach, -2))
        own = torch.cat([own, last[:, :, -1:]], 2)
        after, before = F.pad(after, (0, 0, 0, 0, 0, 1)), F.pad(before, (0, 0, 0, 0, 1, 0))
        row = torch.arange(reach, device=scores.device)[:, None]
        # The band begins one place later in each row.
        band = F.pad(torch.cat([before, own, after], -1).flatten(-2), (0, reach)).unflatten(-1, (reach, 3 * reach + 1))
        place = row + torch.arange(2 * reach + 1, device=scores.device)
        band = band[..., : 2 * reach + 1]
        for block, part, outside in (
            (0, slice(None, reach + 1), place[:, : reach + 1] < reach),
            (-1, slice(reach, None), place[:, reach:] >= 2 * reach),
        ):
            end = band[:, :, block, :, part]
            band[:, :, block, :, part] = torch.where(outside.expand(end.shape).contiguous(), float("-inf"), end)
        return band

    def _added(self, x: Tensor, step: Step) -> Tensor:
        """[batch or 1, chunks, 1, side]: what hides padding from all queries of a chunk."""
        keep = torch.ones((1, x.shape[1]), dtype=torch.bool, device=x.device) if step.keep is None else step.keep
        hidden = torch.zeros_like(keep, dtype=x.dtype).masked_fill(~keep, torch.finfo(x.dtype).min)
        return hidden.unfold(1, 2 * self.spec.reach, self.spec.reach)[:, :, None]


def _slanted(shares: Tensor) -> Tensor:
    """Shares of a band [..., reach, 2 * reach + 1] -> the same in rows of 3 * reach, each row begun one place later."""
    reach, width = shares.shape[-2:]
    flat = F.pad(shares, (0, reach + 1)).flatten(-2)[..., :-reach]
    return flat.unflatten(-1, (reach, width + reach))[..., :-1]
