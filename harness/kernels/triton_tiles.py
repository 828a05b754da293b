"""What both Triton kernels share: which columns a block of rows needs, and the online softmax over them.

Scores stay raw until the exponential: 2 ** (score * scale * log2(e) - highest) is one multiply-add and one exp2, as
GPUs have it. Names in capitals are known when a kernel is compiled; WINDOW 0 means none.
"""

# Triton reads these functions itself: its ranges and constants are no Python types.
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false, reportIndexIssue=false

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def limits(first, last, begin, end, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, BLOCK_N: tl.constexpr):  # noqa: N803
    """Of keys begin .. end, for rows at positions first .. last: where tiles begin (low), where masks no longer matter
    (free), where they matter again (bound), and the end (high). begin is a multiple of BLOCK_N; so are all but high."""
    low, free, bound, high = begin, begin, end, end
    if CAUSAL:
        high = tl.minimum(high, last + 1)
        bound = tl.minimum(bound, first + 1)
    if WINDOW > 0:
        low = tl.maximum(low, first - WINDOW + 1)
        free = tl.maximum(free, last - WINDOW + 1)
        if not CAUSAL:
            high = tl.minimum(high, last + WINDOW)
            bound = tl.minimum(bound, first + WINDOW)
    # Divisions below 0 round differently on a GPU and in Python, so nothing below 0 is divided.
    high = tl.maximum(high, 0)
    low = low // BLOCK_N * BLOCK_N
    free = tl.minimum(tl.cdiv(free, BLOCK_N), tl.cdiv(high, BLOCK_N)) * BLOCK_N
    bound = tl.maximum(tl.maximum(bound, 0) // BLOCK_N * BLOCK_N, free)
    return low, free, bound, high


@triton.jit
def visible(at, columns, end, CAUSAL: tl.constexpr, WINDOW: tl.constexpr):  # noqa: N803
    """Which of the keys `columns` a row at position `at` sees; both are of one shape, or become so."""
    behind = at - columns
    seen = (columns < end) & (behind == behind)
    if CAUSAL:
        seen = seen & (behind >= 0)
    if WINDOW > 0:
        seen = seen & (behind < WINDOW)
        if not CAUSAL:
            seen = seen & (behind > -WINDOW)
    return seen


@triton.jit
def attend(
    sums,
    total,
    highest,
    q,
    k_ptr,
    v_ptr,
    table_ptr,
    stride_kn,
    stride_vn,
    at,
    low,
    high,
    end,
    scale,
    CAUSAL: tl.constexpr,  # noqa: N803
    WINDOW: tl.constexpr,  # noqa: N803
    PAGE: tl.constexpr,  # noqa: N803
    MASKED: tl.constexpr,  # noqa: N803
    D: tl.constexpr,  # noqa: N803
    DV: tl.constexpr,  # noqa: N803
    BLOCK_N: tl.constexpr,  # noqa: N803
):
    """Tiles low .. high: sums [rows, BLOCK_DV], total and highest [rows] go in and come out. at: positions of rows.

    PAGE: keys a page, whose places in the cache stand in the table; 0: keys lie one behind the other.
    """
    dims = tl.arange(0, q.shape[1])
    value_dims = tl.arange(0, sums.shape[1])
    # Places within a tile stay the same and fit 32 bits; only the tile's own place may lie further away.
    inside = tl.arange(0, BLOCK_N)
    k_inside = inside[None, :] * stride_kn + dims[:, None]
    v_inside = inside[:, None] * stride_vn + value_dims[None, :]
    for start in tl.range(low, high, BLOCK_N):
        columns = start + inside
        if PAGE > 0:
            page = tl.load(table_ptr + columns // PAGE, mask=columns < end, other=0)
            slots = page.to(tl.int64) * PAGE + columns % PAGE
            k_place = k_ptr + slots[None, :] * stride_kn + dims[:, None]
            v_place = v_ptr + slots[:, None] * stride_vn + value_dims[None, :]
        else:
            k_place = k_ptr + tl.cast(start, tl.int64) * stride_kn + k_inside
            v_place = v_ptr + tl.cast(start, tl.int64) * stride_vn + v_inside
        if MASKED:
            k = tl.load(k_place, mask=(columns[None, :] < end) & (dims[:, None] < D), other=0.0)
            v = tl.load(v_place, mask=(columns[:, None] < end) & (value_dims[None, :] < DV), other=0.0)
        else:
            k = tl.load(k_place) if q.shape[1] == D else tl.load(k_place, mask=dims[:, None] < D, other=0.0)
            wide = sums.shape[1] == DV
            v = tl.load(v_place) if wide else tl.load(v_place, mask=value_dims[None, :] < DV, other=0.0)
        scores = tl.dot(q, k, input_precision="ieee")
        if MASKED:
            seen = visible(at[:, None], columns[None, :], end, CAUSAL, WINDOW)
            scores = tl.where(seen, scores, float("-inf"))
        new = tl.maximum(highest, tl.max(scores, 1) * scale)
        # A row that has seen nothing yet: minus infinity less itself would be no number.
        base = tl.where(new == float("-inf"), 0.0, new) if MASKED else new
        weights = tl.math.exp2(scores * scale - base[:, None])
        shrink = tl.math.exp2(highest - base)
        total = total * shrink + tl.sum(weights, 1)
        sums = tl.dot(weights.to(v.dtype), v, sums * shrink[:, None], input_precision="ieee")
        highest = new
    return sums, total, highest


@triton.jit
def attend_all(
    q,
    k_ptr,
    v_ptr,
    table_ptr,
    stride_kn,
    stride_vn,
    at,
    first,
    last,
    begin,
    end,
    scale,
    CAUSAL: tl.constexpr,  # noqa: N803
    WINDOW: tl.constexpr,  # noqa: N803
    PAGE: tl.constexpr,  # noqa: N803
    D: tl.constexpr,  # noqa: N803
    DV: tl.constexpr,  # noqa: N803
    BLOCK_DV: tl.constexpr,  # noqa: N803
    BLOCK_N: tl.constexpr,  # noqa: N803
):
    """Keys begin .. end in three loops, so that only tiles on an edge pay for masks."""
    low, free, bound, high = limits(first, last, begin, end, CAUSAL, WINDOW, BLOCK_N)
    sums = tl.zeros([q.shape[0], BLOCK_DV], tl.float32)
    total = tl.zeros([q.shape[0]], tl.float32)
    highest = tl.full([q.shape[0]], float("-inf"), tl.float32)
    if WINDOW > 0:
        sums, total, highest = attend(
            sums, total, highest, q, k_ptr, v_ptr, table_ptr, stride_kn, stride_vn, at, low, free, end, scale,
            CAUSAL, WINDOW, PAGE, True, D, DV, BLOCK_N,
        )  # fmt: skip
    sums, total, highest = attend(
        sums, total, highest, q, k_ptr, v_ptr, table_ptr, stride_kn, stride_vn, at, free, bound, end, scale,
        CAUSAL, WINDOW, PAGE, False, D, DV, BLOCK_N,
    )  # fmt: skip
    return attend(
        sums, total, highest, q, k_ptr, v_ptr, table_ptr, stride_kn, stride_vn, at, bound, high, end, scale,
        CAUSAL, WINDOW, PAGE, True, D, DV, BLOCK_N,
    )  # fmt: skip
