"""FlashAttention's backward pass in Triton: weights are made again from each row's sum, and no score is kept.

Two kernels, as in FlashAttention-2 (Dao 2023, arXiv:2307.08691, section 3.1.2) but without sums across programs: one
program a block of queries finds their gradient and what each row's softmax takes away; then one a block of keys finds
those of keys and values, over all query heads that share them.
"""

# Triton reads the kernels itself: its ranges and constants are no Python types.
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false, reportIndexIssue=false

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from calc.attention.shape import AttentionShape
from harness.kernels.triton_prefill import lengths_of, power_of_two, prefill
from harness.kernels.triton_tiles import limits, visible


@triton.jit
def _add_query_gradient(
    dq, q, gradient, logs, delta, k_ptr, v_ptr, stride_kn, stride_vn, at, low, high, end, scale,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, MASKED: tl.constexpr,  # noqa: N803
    D: tl.constexpr, DV: tl.constexpr, BLOCK_N: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Tiles low .. high of keys: what they add to dq [rows, BLOCK_D], without the softmax's scale."""
    dims, value_dims = tl.arange(0, q.shape[1]), tl.arange(0, gradient.shape[1])
    for start in tl.range(low, high, BLOCK_N):
        columns = start + tl.arange(0, BLOCK_N)
        wide = tl.cast(columns, tl.int64)[:, None]
        real = columns[:, None] < end
        k = tl.load(k_ptr + wide * stride_kn + dims[None, :], mask=real & (dims[None, :] < D), other=0.0)
        v = tl.load(v_ptr + wide * stride_vn + value_dims[None, :], mask=real & (value_dims[None, :] < DV), other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        weights = tl.math.exp2(scores * scale - logs[:, None])
        if MASKED:
            weights = tl.where(visible(at[:, None], columns[None, :], end, CAUSAL, WINDOW), weights, 0.0)
        from_values = tl.dot(gradient, tl.trans(v), input_precision="ieee")
        dq += tl.dot((weights * (from_values - delta[:, None])).to(k.dtype), k, input_precision="ieee")
    return dq


@triton.jit
def query_gradient_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, gradient_ptr, logs_ptr, delta_ptr, dq_ptr, lengths_ptr,
    stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
    heads, group, seq, keys, scale, root,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, PADDED: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,  # noqa: N803
    BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """One block of queries of one head: their gradient, and delta, the sum of each row's output times its gradient.

    out, gradient, dq, logs and delta are contiguous. root: the softmax's scale; scale: that times log2 of e.
    """
    tiles = tl.cdiv(seq, BLOCK_M)
    program = tl.program_id(0)
    start = (tiles - 1 - program % tiles) * BLOCK_M
    batch, head = (program // tiles // heads).to(tl.int64), (program // tiles % heads).to(tl.int64)
    end = tl.load(lengths_ptr + batch) if PADDED else keys
    rows = start + tl.arange(0, BLOCK_M)
    dims, value_dims = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_DV)
    inside = rows < seq
    row = (batch * heads + head) * seq + rows
    wide = inside[:, None] & (value_dims[None, :] < DV)
    q_place = q_ptr + batch * stride_qb + head * stride_qh + rows[:, None] * stride_qm + dims[None, :]
    q = tl.load(q_place, mask=inside[:, None] & (dims[None, :] < D), other=0.0)
    out = tl.load(out_ptr + row[:, None] * DV + value_dims[None, :], mask=wide, other=0.0)
    gradient = tl.load(gradient_ptr + row[:, None] * DV + value_dims[None, :], mask=wide, other=0.0)
    logs = tl.load(logs_ptr + row, mask=inside, other=float("inf"))
    delta = tl.sum(out.to(tl.float32) * gradient.to(tl.float32), 1)
    tl.store(delta_ptr + row, delta, mask=inside)

    k_ptr += batch * stride_kb + head // group * stride_kh
    v_ptr += batch * stride_vb + head // group * stride_vh
    offset = keys - seq
    first, last = start + offset, tl.minimum(start + BLOCK_M, seq) - 1 + offset
    low, free, bound, high = limits(first, last, 0, end, CAUSAL, WINDOW, BLOCK_N)
    dq = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    if WINDOW > 0:
        dq = _add_query_gradient(
            dq, q, gradient, logs, delta, k_ptr, v_ptr, stride_kn, stride_vn, rows + offset, low, free, end, scale,
            CAUSAL, WINDOW, True, D, DV, BLOCK_N,
        )  # fmt: skip
    dq = _add_query_gradient(
        dq, q, gradient, logs, delta, k_ptr, v_ptr, stride_kn, stride_vn, rows + offset, free, bound, end, scale,
        CAUSAL, WINDOW, False, D, DV, BLOCK_N,
    )  # fmt: skip
    dq = _add_query_gradient(
        dq, q, gradient, logs, delta, k_ptr, v_ptr, stride_kn, stride_vn, rows + offset, bound, high, end, scale,
        CAUSAL, WINDOW, True, D, DV, BLOCK_N,
    )  # fmt: skip
    place = dq_ptr + row[:, None] * D + dims[None, :]
    tl.store(place, (dq * root).to(dq_ptr.dtype.element_ty), mask=inside[:, None] & (dims[None, :] < D))


@triton.jit
def row_limits(first, last, seq, offset, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, BLOCK_M: tl.constexpr):  # noqa: N803
    """Of rows 0 .. seq, for keys first .. last: where tiles begin that see one of them (low), where those begin that
    see all (free) and end (bound), and the end (high). All but high are multiples of BLOCK_M."""
    low, free, bound, high = 0, 0, seq, seq
    if CAUSAL:
        low = first - offset
        free = last - offset
    if WINDOW > 0:
        high = tl.minimum(high, last + WINDOW - offset)
        bound = tl.minimum(bound, first + WINDOW - offset)
        if not CAUSAL:
            low = first - WINDOW + 1 - offset
            free = last - WINDOW + 1 - offset
    high = tl.maximum(high, 0)
    low = tl.maximum(low, 0) // BLOCK_M * BLOCK_M
    free = tl.minimum(tl.cdiv(tl.maximum(free, 0), BLOCK_M), tl.cdiv(high, BLOCK_M)) * BLOCK_M
    bound = tl.maximum(tl.maximum(bound, 0) // BLOCK_M * BLOCK_M, free)
    return low, free, bound, high


@triton.jit
def _add_key_gradients(
    dk, dv, k, v, q_ptr, gradient_ptr, logs_ptr, delta_ptr, stride_qm, columns, low, high, seq, offset, end, scale,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, MASKED: tl.constexpr,  # noqa: N803
    D: tl.constexpr, DV: tl.constexpr, BLOCK_M: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Tiles low .. high of rows: what they add to dk [columns, BLOCK_D], without the scale, and dv."""
    dims, value_dims = tl.arange(0, k.shape[1]), tl.arange(0, v.shape[1])
    for start in tl.range(low, high, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        inside = rows < seq
        wide = tl.cast(rows, tl.int64)[:, None]
        q_place = q_ptr + wide * stride_qm + dims[None, :]
        q = tl.load(q_place, mask=inside[:, None] & (dims[None, :] < D), other=0.0)
        place = gradient_ptr + wide * DV + value_dims[None, :]
        gradient = tl.load(place, mask=inside[:, None] & (value_dims[None, :] < DV), other=0.0)
        logs = tl.load(logs_ptr + rows, mask=inside, other=float("inf"))
        delta = tl.load(delta_ptr + rows, mask=inside, other=0.0)
        scores = tl.dot(k, tl.trans(q), input_precision="ieee")
        weights = tl.math.exp2(scores * scale - logs[None, :])
        if MASKED:
            weights = tl.where(visible(rows[None, :] + offset, columns[:, None], end, CAUSAL, WINDOW), weights, 0.0)
        dv += tl.dot(weights.to(gradient.dtype), gradient, input_precision="ieee")
        from_values = tl.dot(v, tl.trans(gradient), input_precision="ieee")
        dk += tl.dot((weights * (from_values - delta[None, :])).to(q.dtype), q, input_precision="ieee")
    return dk, dv


@triton.jit
def key_gradient_kernel(
    q_ptr, k_ptr, v_ptr, gradient_ptr, logs_ptr, delta_ptr, dk_ptr, dv_ptr, lengths_ptr,
    stride_qb, stride_qh, stride_qm, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
    heads, group, seq, keys, scale, root,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, PADDED: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,  # noqa: N803
    BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """One block of keys of one head: their gradients and their values', over all query heads of the group.

    Contiguous, root, scale: as in the kernel of queries. Padding has gradients too: zeros.
    """
    tiles = tl.cdiv(keys, BLOCK_N)
    program = tl.program_id(0)
    # The first keys of a causal square are seen by the most rows: they begin first.
    start = program % tiles * BLOCK_N
    kv_heads = heads // group
    batch, kv_head = (program // tiles // kv_heads).to(tl.int64), (program // tiles % kv_heads).to(tl.int64)
    end = tl.load(lengths_ptr + batch) if PADDED else keys
    columns = start + tl.arange(0, BLOCK_N)
    dims, value_dims = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_DV)
    real = columns[:, None] < end
    k_place = k_ptr + batch * stride_kb + kv_head * stride_kh + columns[:, None] * stride_kn + dims[None, :]
    v_place = v_ptr + batch * stride_vb + kv_head * stride_vh + columns[:, None] * stride_vn + value_dims[None, :]
    k = tl.load(k_place, mask=real & (dims[None, :] < D), other=0.0)
    v = tl.load(v_place, mask=real & (value_dims[None, :] < DV), other=0.0)

    offset = keys - seq
    low, free, bound, high = row_limits(
        start, tl.minimum(start + BLOCK_N, keys) - 1, seq, offset, CAUSAL, WINDOW, BLOCK_M
    )
    if start + BLOCK_N > end:
        # Some of these keys are none: no tile goes without a mask.
        bound = free
    dk, dv = tl.zeros([BLOCK_N, BLOCK_D], tl.float32), tl.zeros([BLOCK_N, BLOCK_DV], tl.float32)
    for i in tl.range(0, group):
        head = kv_head * group + i
        q_head = q_ptr + batch * stride_qb + head * stride_qh
        row = (batch * heads + head) * seq
        gradient_head, logs_head, delta_head = gradient_ptr + row * DV, logs_ptr + row, delta_ptr + row
        dk, dv = _add_key_gradients(
            dk, dv, k, v, q_head, gradient_head, logs_head, delta_head, stride_qm, columns, low, free, seq, offset,
            end, scale, CAUSAL, WINDOW, True, D, DV, BLOCK_M,
        )  # fmt: skip
        dk, dv = _add_key_gradients(
            dk, dv, k, v, q_head, gradient_head, logs_head, delta_head, stride_qm, columns, free, bound, seq, offset,
            end, scale, CAUSAL, WINDOW, False, D, DV, BLOCK_M,
        )  # fmt: skip
        dk, dv = _add_key_gradients(
            dk, dv, k, v, q_head, gradient_head, logs_head, delta_head, stride_qm, columns, bound, high, seq, offset,
            end, scale, CAUSAL, WINDOW, True, D, DV, BLOCK_M,
        )  # fmt: skip
    place = (batch * kv_heads + kv_head) * keys + columns[:, None]
    there = columns[:, None] < keys
    tl.store(
        dk_ptr + place * D + dims[None, :], (dk * root).to(dk_ptr.dtype.element_ty), mask=there & (dims[None, :] < D)
    )
    dv_place = dv_ptr + place * DV + value_dims[None, :]
    tl.store(dv_place, dv.to(dv_ptr.dtype.element_ty), mask=there & (value_dims[None, :] < DV))


def _tuned(kernel: Any, tried: tuple[tuple[int, int, int, int], ...]) -> Any:
    configs = [
        triton.Config({"BLOCK_M": rows, "BLOCK_N": columns}, num_warps=warps, num_stages=stages)
        for rows, columns, warps, stages in tried
    ]
    return triton.autotune(configs, key=["seq", "keys", "CAUSAL", "WINDOW", "BLOCK_D", "BLOCK_DV"])(kernel)


tuned_query_gradient = _tuned(
    query_gradient_kernel, ((128, 64, 8, 2), (128, 64, 8, 3), (128, 32, 8, 3), (64, 64, 4, 2), (64, 32, 4, 2))
)
tuned_key_gradient = _tuned(
    key_gradient_kernel, ((64, 128, 8, 2), (64, 128, 8, 3), (32, 128, 8, 3), (64, 64, 4, 2), (32, 64, 4, 2))
)


class Flash(torch.autograd.Function):
    """softmax(q k') v with the gradients of q, k and v; keeps q, k, v, the output and a number a row."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, shape: AttentionShape) -> Tensor:
        logs = torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)
        out = prefill(q, k, v, shape, logs)
        ctx.save_for_backward(q, k, v, out, logs)
        ctx.shape = shape
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        q, k, v, out, logs = ctx.saved_tensors
        return (*backward(q, k, v, out, logs, gradients[0].contiguous(), ctx.shape), None)


def backward(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, logs: Tensor, gradient: Tensor, shape: AttentionShape
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v, contiguous. out, logs: what `prefill` gave; gradient: the output's, contiguous."""
    lengths, delta = lengths_of(q, shape), torch.empty_like(logs)
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    at = q if lengths is None else lengths
    strides = [stride for tensor in (q, k, v) for stride in tensor.stride()[:3]]
    root = shape.d_head**-0.5
    sizes = (shape.heads, shape.group, shape.seq, shape.keys, root * math.log2(math.e), root)
    fixed: dict[str, Any] = {
        "CAUSAL": shape.causal,
        "WINDOW": shape.window or 0,
        "PADDED": lengths is not None,
        "D": shape.d_head,
        "DV": shape.d_value,
        "BLOCK_D": power_of_two(shape.d_head),
        "BLOCK_DV": power_of_two(shape.d_value),
    }
    of_queries = (q, k, v, out, gradient, logs, delta, dq, at, *strides, *sizes)
    of_keys = (q, k, v, gradient, logs, delta, dk, dv, at, *strides, *sizes)
    # Queries first: what each row's softmax takes away is found there, and read by the keys.
    _launch(
        query_gradient_kernel, tuned_query_gradient, of_queries, fixed, "BLOCK_M", shape.seq, shape.batch * shape.heads
    )
    _launch(
        key_gradient_kernel, tuned_key_gradient, of_keys, fixed, "BLOCK_N", shape.keys, shape.batch * shape.kv_heads
    )
    return dq, dk, dv


def _launch(
    kernel: Any, tuned: Any, arguments: tuple[Any, ...], fixed: dict[str, Any], block: str, length: int, heads: int
) -> None:
    """One program a block of `length` and head; tiles as tuned on a GPU, small in the interpreter."""
    if arguments[0].is_cuda:
        tuned[lambda chosen: (triton.cdiv(length, chosen[block]) * heads,)](*arguments, **fixed)
    else:
        kernel[(triton.cdiv(length, 16) * heads,)](*arguments, **fixed, BLOCK_M=16, BLOCK_N=16)
