"""FlashAttention in readable PyTorch, forward and backward, with a meter on everything it moves and computes.

The rows of one key head are those of all query heads that share it, heads side by side at each position, so that key
heads are never repeated. Names follow the papers: FlashAttention-2 (Dao 2023, arXiv:2307.08691, algorithms 1 and 2) for
the order `queries`, FlashAttention (Dao et al. 2022, arXiv:2205.14135, algorithms 1 and 4) for the order `keys`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from calc.attention.shape import AttentionShape
from harness.kernels.meter import Meter, wide
from reference_models.blocks.positions import alibi_slopes


@dataclass(frozen=True)
class Tiling:
    """How the work is cut: rows and columns of one tile, the order of the loops, and the meter that watches."""

    rows: int = 64
    columns: int = 64
    order: str = "queries"
    meter: Meter = field(default_factory=Meter)


class Span(NamedTuple):
    """From the first to behind the last."""

    start: int
    stop: int

    @property
    def slice(self) -> slice:
        """For indexing."""
        return slice(self.start, self.stop)


class Part(NamedTuple):
    """Sequences that are worked off together, since they have as many real keys."""

    sequences: slice
    length: int


def parts(shape: AttentionShape) -> Iterator[Part]:
    """All sequences at once, or one by one where their lengths differ."""
    if shape.lengths is None:
        yield Part(slice(None), shape.keys)
    else:
        yield from (Part(slice(i, i + 1), length) for i, length in enumerate(shape.lengths))


def spans(total: int, size: int) -> list[Span]:
    """`total` cut into pieces of `size`; the last may be smaller."""
    return [Span(start, min(start + size, total)) for start in range(0, total, size)]


class Scores:
    """Scores of one tile, masked, with what backward needs of the soft-cap."""

    def __init__(self, shape: AttentionShape, length: int, device: torch.device) -> None:
        self.shape, self.length = shape, length
        self.scale = shape.d_head**-0.5
        self.slopes = alibi_slopes(shape.heads, device).view(shape.kv_heads, shape.group) if shape.alibi else None
        self.rows = torch.arange(shape.seq * shape.group, device=device)
        self.columns = torch.arange(shape.keys, device=device)

    def sees(self, rows: Span, columns: Span) -> bool:
        """Whether any query of these rows sees any of these keys."""
        first, last = (row // self.shape.group + self.shape.offset for row in (rows.start, rows.stop - 1))
        near = columns.start < self.length and (not self.shape.causal or columns.start <= last)
        if self.shape.window is None:
            return near
        ahead = self.shape.causal or columns.start - last < self.shape.window
        return near and ahead and first - (columns.stop - 1) < self.shape.window

    def tile(self, raw: Tensor, rows: Span, columns: Span) -> tuple[Tensor, Tensor | None]:
        """Scores of the products `raw`, minus infinity where hidden, and the derivative of the soft-cap."""
        scores, slope = raw * self.scale, None
        cap = self.shape.softcap
        if cap is not None:
            squashed = torch.tanh(scores / cap)
            scores, slope = cap * squashed, 1 - squashed * squashed
        queries = self.rows[rows.slice] // self.shape.group + self.shape.offset
        behind = queries[:, None] - self.columns[columns.slice]
        if self.slopes is not None:
            # [key heads, rows, 1]: each row is of one head of the group.
            of_row = self.slopes[:, self.rows[rows.slice] % self.shape.group, None]
            scores = scores - of_row * behind.abs()
        if self.shape.causal:
            scores = scores.masked_fill(behind < 0, -torch.inf)
        if self.shape.window is not None:
            far = behind if self.shape.causal else behind.abs()
            scores = scores.masked_fill(far >= self.shape.window, -torch.inf)
        return scores, slope


def pack(x: Tensor, shape: AttentionShape) -> Tensor:
    """[batch, heads, seq, d] -> [batch, kv_heads, seq * group, d]."""
    d = x.shape[-1]
    grouped = x.reshape(shape.batch, shape.kv_heads, shape.group, shape.seq, d)
    return grouped.transpose(2, 3).reshape(shape.batch, shape.kv_heads, shape.seq * shape.group, d)


def unpack(x: Tensor, shape: AttentionShape) -> Tensor:
    """[batch, kv_heads, seq * group, d] -> [batch, heads, seq, d]."""
    d = x.shape[-1]
    grouped = x.reshape(shape.batch, shape.kv_heads, shape.seq, shape.group, d)
    return grouped.transpose(2, 3).reshape(shape.batch, shape.heads, shape.seq, d)


def softmax_step(scores: Tensor, highest: Tensor, meter: Meter) -> tuple[Tensor, Tensor, Tensor]:
    """One step of the online softmax over the columns of a tile (Milakov & Gimelshein 2018, arXiv:1805.02867).

    scores [.., rows, columns], highest [.., rows, 1] so far -> exponentials of the scores less the new highest; the
    new highest; and by what earlier sums shrink. A row that has seen nothing yet keeps minus infinity and gives zeros.
    """
    new = torch.maximum(highest, scores.amax(-1, keepdim=True))
    base = new.masked_fill(new == -torch.inf, 0)
    return meter.exp(scores - base), new, meter.exp(highest - base)


class TiledAttention(torch.autograd.Function):
    """apply(q, k, v, shape, tiling) -> output [batch, heads, seq, d_value]."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, shape: AttentionShape, tiling: Tiling) -> Tensor:
        from harness.kernels import tiled_forward

        run = tiled_forward.queries_first if tiling.order == "queries" else tiled_forward.keys_first
        rows, statistics = run(pack(q, shape), k, v, shape, tiling)
        out = unpack(rows, shape)
        ctx.save_for_backward(q, k, v, out, *statistics)
        ctx.shape, ctx.tiling = shape, tiling
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        from harness.kernels import tiled_backward

        q, k, v, out, *statistics = ctx.saved_tensors
        shape = ctx.shape
        run = tiled_backward.queries_first if ctx.tiling.order == "queries" else tiled_backward.keys_first
        dq, dk, dv = run(pack(q, shape), k, v, pack(out, shape), pack(grads[0], shape), statistics, shape, ctx.tiling)
        return unpack(dq, shape), dk, dv, None, None


def fresh(like: Tensor, width: int, fill: float = 0.0) -> Tensor:
    """[sequences, key heads, rows, width] of `fill` in the wide format of `like`."""
    return wide(like.new_empty(0)).new_full((*like.shape[:-1], width), fill)
