"""Attention whose numbers for distances pass a gate: the twin of `calc.blocks.gated_bias`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import GatedBias
from reference_models.step import Step, recomputed
from reference_models.support import supported


class GatedBiasAttention(nn.Module):
    """Every token sees all others; `step.relative` gives the numbers of distances, those of each sequence apart."""

    name = "attention"

    def __init__(self, spec: GatedBias, d_model: int) -> None:
        super().__init__()
        supported(spec, "n_heads", "d_head", "buckets")
        self.spec = spec
        width = spec.n_heads * spec.d_head
        for name in ("q_proj", "k_proj", "v_proj"):
            self.add_module(name, nn.Linear(d_model, width))
        self.gate_proj = nn.Linear(spec.d_head, 8)
        self.gate_scale = nn.Parameter(torch.ones(spec.n_heads))
        self.o_proj = nn.Linear(width, d_model)

    def new_cache(self, length: int | None) -> None:
        """Tokens see those to come, so nothing is kept."""

    def forward(self, x: Tensor, step: Step, cache: Any = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape."""
        assert step.relative is not None
        places = torch.arange(x.shape[1], device=x.device)
        bias = step.relative(places, places, causal=False)
        gate = self._gate(x)
        # Tokens first, so that each projection of several texts copies what it reads, as transformers does.
        q, k, v = (self._heads(self.get_submodule(f"{name}_proj")(x.transpose(0, 1))) for name in "qkv")
        q = q * self.spec.d_head**-0.5

        def core(q: Tensor, k: Tensor, v: Tensor, gate: Tensor, bias: Tensor) -> Tensor:
            added = gate.flatten(0, 1) * bias.flatten(0, 1)
            if step.keep is not None:
                hidden = torch.zeros_like(step.keep, dtype=x.dtype).masked_fill(~step.keep, torch.finfo(x.dtype).min)
                added = added + hidden.repeat_interleave(self.spec.n_heads, 0)[:, None]
            shares = torch.baddbmm(added, q, k.transpose(1, 2)).softmax(-1)
            return torch.bmm(F.dropout(shares, step.dropout), v)

        read = (q, k, v, gate, bias)
        y = recomputed(core, *read) if step.checkpointing == "selective" else core(*read)
        together = y.transpose(0, 1).contiguous().view(x.shape[1] * x.shape[0], -1)
        return self.o_proj(together).view(x.shape[1], x.shape[0], -1).transpose(0, 1)

    def _heads(self, x: Tensor) -> Tensor:
        """[seq, batch, n_heads * d_head] -> [batch * n_heads, seq, d_head]."""
        return x.reshape(len(x), -1, self.spec.d_head).transpose(0, 1)

    def _gate(self, x: Tensor) -> Tensor:
        """x [batch, seq, n_heads * d_head] -> [batch, n_heads, seq, 1]: a * (b * scale - 1) + 2 of two sigmoids."""
        each = x.unflatten(-1, (self.spec.n_heads, -1)).permute(0, 2, 1, 3)
        a, b = self.gate_proj(each).unflatten(-1, (2, 4)).sum(-1).sigmoid().chunk(2, dim=-1)
        return a * (b * self.gate_scale[:, None, None] - 1.0) + 2.0
