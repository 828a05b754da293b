"""Funnel Transformer: attention over distances and segments, halvings and what undoes them.

The twin of `calc.blocks.funnel` and `halving`; products, and what they copy, as transformers has them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import FunnelAttention, Halved
from reference_models.blocks.funnel_tables import Tables, began, halved_tables
from reference_models.step import Step, recomputed
from reference_models.support import supported


class OverSegments(nn.Module):
    """Three scores of each pair, summed up; every vector sees all others."""

    name = "attention"

    def __init__(self, spec: FunnelAttention, d_model: int) -> None:
        super().__init__()
        supported(spec, "n_heads", "d_head", "factorized", "first_apart", "unhalved")
        self.spec = spec
        heads, width = (spec.n_heads, spec.d_head), spec.n_heads * spec.d_head
        self.q_proj = nn.Linear(d_model, width, bias=False)
        self.k_proj, self.v_proj = nn.Linear(d_model, width), nn.Linear(d_model, width)
        self.pos_proj = nn.Linear(d_model, width, bias=False)
        self.pos_bias_u, self.pos_bias_v = (nn.Parameter(torch.zeros(heads)) for _ in "uv")
        self.segment_bias = nn.Parameter(torch.zeros(heads))
        self.segment_vectors = nn.Parameter(torch.zeros(2, *heads))
        self.o_proj = nn.Linear(width, d_model)

    def new_cache(self, length: int | None) -> None:
        """Tokens see those to come, so nothing is kept."""

    def forward(self, x: Tensor, step: Step, cache: Any = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape. Errors: ValueError for a stack that halves nothing."""
        if step.blocks is None:
            raise ValueError("attention: expected a stack that tells places of its vectors")
        tables, source = step.blocks.tables, x
        if step.blocks.unhalved is not None and step.blocks.ahead is not None:
            tables, source = step.blocks.ahead, step.blocks.unhalved
        heads = self.spec.n_heads
        q = self.q_proj(x).unflatten(-1, (heads, -1)) * self.spec.d_head**-0.5
        k, v = (each(source).unflatten(-1, (heads, -1)) for each in (self.k_proj, self.v_proj))
        distances = () if tables.sinusoids is None else (self.pos_proj(tables.sinusoids).unflatten(-1, (heads, -1)),)

        def core(q: Tensor, k: Tensor, v: Tensor, *distances: Tensor) -> Tensor:
            return self._core(q, k, v, distances, tables, step)

        run = recomputed(core, q, k, v, *distances) if step.checkpointing == "selective" else core(q, k, v, *distances)
        return self.o_proj(run.flatten(2))

    def _core(
        self, q: Tensor, k: Tensor, v: Tensor, distances: tuple[Tensor, ...], tables: Tables, step: Step
    ) -> Tensor:
        """q [batch, seq, n_heads, d_head]; k, v [batch, keys, n_heads, d_head] -> as q."""
        scale = self.spec.d_head**-0.5
        scores = torch.einsum("bind,bjnd->bnij", q + self.pos_bias_u * scale, k)
        placed = q + self.pos_bias_v * scale
        if distances:
            found = torch.einsum("binh,tnh->bnit", placed, distances[0])
            far = looked_up(found, k.shape[1], 2 if step.blocks is not None and tables is step.blocks.ahead else 1)
        else:
            matrix = self.pos_proj.weight.unflatten(0, (self.spec.n_heads, -1))
            turned = torch.einsum("binh,nhd->bind", placed, matrix)
            far = sum(
                torch.einsum("bind,jd->bnij", turned * own[:, None], other)
                for own, other in zip(tables.queries, tables.keys, strict=True)
            )
        of_two = torch.einsum("bind,snd->bnis", q + self.segment_bias * scale, self.segment_vectors)
        same = tables.segments[:, None].expand(scores.shape)
        other, own = (each.expand(scores.shape) for each in of_two.split(1, -1))
        segments = torch.where(same, own, other)
        if tables.apart is not None:
            far *= tables.apart
            segments *= tables.apart
        weights = F.dropout((scores + far + segments).float().softmax(-1, dtype=scores.dtype), step.dropout)
        if step.need_weights:
            step.maps.append(weights.detach())
        return torch.einsum("bnij,bjnd->bind", weights, v)


def looked_up(scores: Tensor, keys: int, shift: int) -> Tensor:
    """Scores of distances [batch, n_heads, seq, distances], largest first -> those of keys [..., seq, keys]. shift: how
    many distances later a query begins than the one before it."""
    seq, distances = scores.shape[-2:]
    moved = scores.reshape(*scores.shape[:2], distances, seq)[:, :, shift:]
    return moved.reshape(*scores.shape[:2], seq, distances - shift)[..., :keys]


class Halving(nn.Module):
    """[batch, seq, d] -> [batch, about seq / 2, d], and the step of those."""

    def __init__(self, spec: Halved, *, unhalved: bool) -> None:
        super().__init__()
        supported(spec, "how", "first_apart", "cut")
        self.spec, self.unhalved = spec, unhalved

    def forward(self, x: Tensor, step: Step) -> tuple[Tensor, Step]:
        """Errors: ValueError for padding, which would be halved too."""
        if step.keep is not None or step.blocks is None:
            raise ValueError("keep: expected None, texts of one length, whose vectors are halved")
        spec, read = self.spec, x
        if spec.first_apart:
            read = torch.cat([x[:, :1], x[:, :-1] if spec.cut else x], 1)
        pool = F.avg_pool2d if spec.how == "mean" else F.max_pool2d
        y = pool(read[:, None], (2, 1), stride=(2, 1), ceil_mode=True)[:, 0]
        how = {"first_apart": spec.first_apart, "cut": spec.cut, "unhalved": self.unhalved}
        blocks = halved_tables(step.blocks, x, **how)
        blocks = blocks if blocks.whole is not None else replace(blocks, whole=(x, step))
        return y, replace(step, positions=torch.arange(y.shape[1], device=x.device)[None], blocks=blocks)


class Upsampling(nn.Module):
    """Each vector repeated until there are as many as ahead of the first halving, plus what stood there."""

    def __init__(self, mixer: FunnelAttention, halvings: int) -> None:
        super().__init__()
        self.mixer, self.times = mixer, 2**halvings

    def forward(self, x: Tensor, step: Step) -> tuple[Tensor, Step]:
        """[batch, few, d] -> [batch, seq, d], and the step of those."""
        assert step.blocks is not None
        whole, before = step.blocks.whole or (x, step)
        if self.times > 1:
            apart = int(self.mixer.first_apart)
            rest = x[:, apart:].repeat_interleave(self.times, 1)
            missing = max(0, whole.shape[1] - apart - rest.shape[1])
            rest = F.pad(rest, (0, 0, 0, missing))[:, : whole.shape[1] - apart]
            x = torch.cat([x[:, :1], rest], 1) if apart else rest
        x = x + whole
        return x, replace(before, blocks=began(self.mixer, x, step.token_types, step.dropout))
