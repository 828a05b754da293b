"""The forward pass of tiled attention in both orders of its loops."""

from __future__ import annotations

import torch
from torch import Tensor

from calc.attention.shape import AttentionShape
from harness.kernels.tiling import Part, Scores, Span, Tiling, fresh, parts, softmax_step, spans

Statistics = tuple[Tensor, ...]


def queries_first(q: Tensor, k: Tensor, v: Tensor, shape: AttentionShape, tiling: Tiling) -> tuple[Tensor, Statistics]:
    """q [batch, kv_heads, rows, d_head] -> output [.., rows, d_value] and the log of each row's sum, [.., rows, 1]."""
    out = q.new_empty(*q.shape[:-1], shape.d_value)
    logs = fresh(q, 1)
    for part in parts(shape):
        for rows in spans(q.shape[-2], tiling.rows):
            sums, total, highest = _row(q, k, v, shape, tiling, part, rows)
            seen = total > 0
            place = (part.sequences, slice(None), rows.slice)
            tiling.meter.store(out[place], sums / total.masked_fill(~seen, 1))
            # The log of an empty row is set to 0: its scores are minus infinity, and so their exponentials stay 0.
            tiling.meter.store(logs[place], torch.where(seen, highest + total.log(), 0))
    return out, (logs,)


def _row(
    q: Tensor, k: Tensor, v: Tensor, shape: AttentionShape, tiling: Tiling, part: Part, rows: Span
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of values, sums of weights and highest scores of one row of tiles; keys pass while they stay."""
    meter, scores = tiling.meter, Scores(shape, part.length, q.device)
    below = q[part.sequences, :, rows.slice]
    sums, total, highest = fresh(below, shape.d_value), fresh(below, 1), fresh(below, 1, -torch.inf)
    loaded = None
    for columns in spans(part.length, tiling.columns):
        if not scores.sees(rows, columns):
            continue
        loaded = meter.load(below) if loaded is None else loaded
        keys = meter.load(k[part.sequences, :, columns.slice])
        values = meter.load(v[part.sequences, :, columns.slice])
        tile, _ = scores.tile(meter.product(loaded, keys.mT), rows, columns)
        weights, highest, shrink = softmax_step(tile, highest, meter)
        total = total * shrink + weights.sum(-1, keepdim=True)
        sums = sums * shrink + meter.product(weights, values)
        meter.on_chip(loaded, keys, values, weights, sums, total, highest)
    return sums, total, highest


def keys_first(q: Tensor, k: Tensor, v: Tensor, shape: AttentionShape, tiling: Tiling) -> tuple[Tensor, Statistics]:
    """The same with row maxima and row sums in place of the log; queries pass while keys stay."""
    out = q.new_empty(*q.shape[:-1], shape.d_value)
    total, highest = fresh(q, 1), fresh(q, 1)
    tiling.meter.store(out, torch.zeros_like(out))
    tiling.meter.store(total, torch.zeros_like(total))
    tiling.meter.store(highest, torch.full_like(highest, -torch.inf))
    for part in parts(shape):
        for columns in spans(part.length, tiling.columns):
            _column(q, k, v, (out, total, highest), shape, tiling, part, columns)
    return out, (total, highest)


def _column(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    memory: tuple[Tensor, Tensor, Tensor],
    shape: AttentionShape,
    tiling: Tiling,
    part: Part,
    columns: Span,
) -> None:
    """All rows of tiles against one column of them."""
    meter, scores, loaded = tiling.meter, Scores(shape, part.length, q.device), None
    for rows in spans(q.shape[-2], tiling.rows):
        if not scores.sees(rows, columns):
            continue
        if loaded is None:
            loaded = tuple(meter.load(each[part.sequences, :, columns.slice]) for each in (k, v))
        keys, values = loaded
        place = (part.sequences, slice(None), rows.slice)
        queries = meter.load(q[place])
        mean, total, highest = (meter.load(each[place]) for each in memory)
        tile, _ = scores.tile(meter.product(queries, keys.mT), rows, columns)
        weights, new, shrink = softmax_step(tile, highest, meter)
        grown = total * shrink + weights.sum(-1, keepdim=True)
        # Main memory holds means, so the old one becomes a sum again before it shrinks (algorithm 1, line 12).
        sums = mean.to(tile.dtype) * (total * shrink) + meter.product(weights, values)
        meter.on_chip(queries, keys, values, weights, sums, grown, new)
        for memory_of, value in zip(memory, (sums / grown.masked_fill(grown == 0, 1), grown, new), strict=True):
            meter.store(memory_of[place], value)
