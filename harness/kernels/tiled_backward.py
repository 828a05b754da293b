"""The backward pass of tiled attention: the weights are computed once more, tile by tile, from q, k and a number a row.

With scores S, weights P = softmax(S) and output O = P v, and gradients named d: dv = P^T dO, dP = dO v^T,
dS = P * (dP - rowsum(dO * O)), dq = dS k, dk = dS^T q. Five products a tile where forward has two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from calc.attention.shape import AttentionShape
from harness.kernels.meter import Meter, wide
from harness.kernels.tiling import Part, Scores, Span, Tiling, fresh, parts, spans


class Row(NamedTuple):
    """What one visit needs of its rows: queries, the output's gradient, weights of a tile of scores, and
    rowsum(dO * O)."""

    queries: Tensor
    out_grad: Tensor
    weights: Callable[[Tensor, Meter], Tensor]
    delta: Tensor
    numbers: tuple[Tensor, Tensor]


def queries_first(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    out_grad: Tensor,
    statistics: list[Tensor],
    shape: AttentionShape,
    tiling: Tiling,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q (in rows of a group), k and v, by FlashAttention-2, algorithm 2; statistics: logs of row sums."""
    meter, (logs,) = tiling.meter, statistics
    delta, q_sum = fresh(q, 1), fresh(q, q.shape[-1])
    meter.store(delta, (wide(meter.load(out)) * wide(meter.load(out_grad))).sum(-1, keepdim=True))
    meter.store(q_sum, torch.zeros_like(q_sum))

    def load(place: tuple[slice, ...]) -> Row:
        log, of_row = meter.load(logs[place]), meter.load(delta[place])
        return Row(
            meter.load(q[place]),
            meter.load(out_grad[place]),
            lambda tile, meter: meter.exp(tile - log),
            of_row,
            (log, of_row),
        )

    dk, dv = _columns(q, k, v, q_sum, load, shape, tiling)
    if q_sum.dtype == q.dtype:
        return q_sum, dk, dv
    dq = torch.empty_like(q)
    meter.store(dq, meter.load(q_sum))
    return dq, dk, dv


def keys_first(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    out_grad: Tensor,
    statistics: list[Tensor],
    shape: AttentionShape,
    tiling: Tiling,
) -> tuple[Tensor, Tensor, Tensor]:
    """The same by FlashAttention, algorithm 4; statistics: sums and highest scores of rows."""
    meter, (totals, heights) = tiling.meter, statistics
    dq = torch.empty_like(q)
    meter.store(dq, torch.zeros_like(dq))

    def load(place: tuple[slice, ...]) -> Row:
        total, highest = meter.load(totals[place]), meter.load(heights[place])
        base, divisor = highest.masked_fill(highest == -torch.inf, 0), total.masked_fill(total == 0, 1)
        gradient = meter.load(out_grad[place])
        delta = (wide(meter.load(out[place])) * wide(gradient)).sum(-1, keepdim=True)
        return Row(
            meter.load(q[place]),
            gradient,
            lambda tile, meter: meter.exp(tile - base) / divisor,
            delta,
            (total, highest),
        )

    dk, dv = _columns(q, k, v, dq, load, shape, tiling)
    return dq, dk, dv


def _columns(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dq: Tensor,
    load: Callable[[tuple[slice, ...]], Row],
    shape: AttentionShape,
    tiling: Tiling,
) -> tuple[Tensor, Tensor]:
    """Keys and values stay while rows pass; the gradient of q is added to `dq` in main memory."""
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    for part in parts(shape):
        for columns in spans(shape.keys, tiling.columns):
            # Padding has gradients too: zeros.
            inside = Span(columns.start, min(columns.stop, part.length))
            tile = (part.sequences, slice(None), columns.slice)
            dk_sum, dv_sum = fresh(k[tile], k.shape[-1]), fresh(v[tile], v.shape[-1])
            real = slice(0, max(inside.stop - inside.start, 0))
            _column(q, k, v, dq, load, (dk_sum[..., real, :], dv_sum[..., real, :]), shape, tiling, part, inside)
            tiling.meter.store(dk[tile], dk_sum)
            tiling.meter.store(dv[tile], dv_sum)
    return dk, dv


def _column(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dq: Tensor,
    load: Callable[[tuple[slice, ...]], Row],
    sums: tuple[Tensor, Tensor],
    shape: AttentionShape,
    tiling: Tiling,
    part: Part,
    columns: Span,
) -> None:
    """One column of tiles, whose gradients of k and v are added to `sums` on the chip."""
    meter, scores, loaded = tiling.meter, Scores(shape, part.length, q.device), None
    dk, dv = sums
    for rows in spans(q.shape[-2], tiling.rows):
        if not scores.sees(rows, columns):
            continue
        if loaded is None:
            loaded = tuple(meter.load(each[part.sequences, :, columns.slice]) for each in (k, v))
        keys, values = loaded
        place = (part.sequences, slice(None), rows.slice)
        row = load(place)
        tile, slope = scores.tile(meter.product(row.queries, keys.mT), rows, columns)
        weights = row.weights(tile, meter)
        dv += meter.product(weights.mT, row.out_grad)
        change = weights * (meter.product(row.out_grad, values.mT) - row.delta)
        if slope is not None:
            change = change * slope
        change = change * scores.scale
        dk += meter.product(change.mT, row.queries)
        added = wide(meter.load(dq[place])) + meter.product(change, keys)
        meter.on_chip(row.queries, row.out_grad, keys, values, weights, change, added, dk, dv, *row.numbers)
        meter.store(dq[place], added)
