"""FlashAttention's forward pass in Triton: one program a block of queries of one head."""

# Triton reads the kernel itself: its constants are no Python types.
# pyright: reportArgumentType=false

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from calc.attention.shape import AttentionShape
from harness.kernels.triton_tiles import attend_all


@triton.jit
def prefill_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    logs_ptr,
    lengths_ptr,
    stride_qb,
    stride_qh,
    stride_qm,
    stride_kb,
    stride_kh,
    stride_kn,
    stride_vb,
    stride_vh,
    stride_vn,
    stride_ob,
    stride_oh,
    stride_om,
    heads,
    group,
    seq,
    keys,
    scale,
    CAUSAL: tl.constexpr,  # noqa: N803
    WINDOW: tl.constexpr,  # noqa: N803
    PADDED: tl.constexpr,  # noqa: N803
    LOGS: tl.constexpr,  # noqa: N803
    D: tl.constexpr,  # noqa: N803
    DV: tl.constexpr,  # noqa: N803
    BLOCK_D: tl.constexpr,  # noqa: N803
    BLOCK_DV: tl.constexpr,  # noqa: N803
    BLOCK_M: tl.constexpr,  # noqa: N803
    BLOCK_N: tl.constexpr,  # noqa: N803
):
    tiles = tl.cdiv(seq, BLOCK_M)
    program = tl.program_id(0)
    # The last rows of a causal square see the most keys: they begin first, so that nobody waits for them at the end.
    start = (tiles - 1 - program % tiles) * BLOCK_M
    batch = (program // tiles // heads).to(tl.int64)
    head = (program // tiles % heads).to(tl.int64)
    end = tl.load(lengths_ptr + batch) if PADDED else keys

    rows = start + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    q_place = q_ptr + batch * stride_qb + head * stride_qh + rows[:, None] * stride_qm + dims[None, :]
    q = tl.load(q_place, mask=(rows[:, None] < seq) & (dims[None, :] < D), other=0.0)
    offset = keys - seq
    first, last = start + offset, tl.minimum(start + BLOCK_M, seq) - 1 + offset
    sums, total, highest = attend_all(
        q,
        k_ptr + batch * stride_kb + head // group * stride_kh,
        v_ptr + batch * stride_vb + head // group * stride_vh,
        q_ptr, stride_kn, stride_vn, rows + offset, first, last, 0, end, scale,
        CAUSAL, WINDOW, 0, D, DV, BLOCK_DV, BLOCK_N,
    )  # fmt: skip
    out = sums / tl.where(total == 0.0, 1.0, total)[:, None]
    value_dims = tl.arange(0, BLOCK_DV)
    place = out_ptr + batch * stride_ob + head * stride_oh + rows[:, None] * stride_om + value_dims[None, :]
    tl.store(place, out.to(out_ptr.dtype.element_ty), mask=(rows[:, None] < seq) & (value_dims[None, :] < DV))
    if LOGS:
        # Of a row that sees nothing infinity, so that every weight that is made again from it is 0.
        logs = tl.where(total == 0.0, float("inf"), highest + tl.math.log2(tl.where(total == 0.0, 1.0, total)))
        tl.store(logs_ptr + (batch * heads + head) * seq + rows, logs, mask=rows < seq)


def _configs() -> list[triton.Config]:
    """Tried on CUDA: 128 queries for two warpgroups of Hopper's matrix units, 64 where registers or memory run out."""
    tried = [(128, 128, 8, 2), (128, 128, 8, 3), (128, 64, 8, 3), (128, 64, 8, 4), (128, 64, 4, 3), (64, 64, 4, 3)]
    tried += [(64, 32, 4, 2)]
    return [
        triton.Config({"BLOCK_M": rows, "BLOCK_N": columns}, num_warps=warps, num_stages=stages)
        for rows, columns, warps, stages in tried
    ]


def prefill(q: Tensor, k: Tensor, v: Tensor, shape: AttentionShape, logs: Tensor | None = None) -> Tensor:
    """Output [batch, heads, seq, d_value] of q, k, v whose last axis is contiguous.

    logs [batch, heads, seq], fp32: is given log2 of each row's sum of weights, infinity where it sees no key.
    """
    out = q.new_empty(*q.shape[:-1], shape.d_value)
    lengths = lengths_of(q, shape)
    strides = [stride for tensor in (q, k, v, out) for stride in tensor.stride()[:3]]
    sizes = (shape.heads, shape.group, shape.seq, shape.keys, shape.d_head**-0.5 * math.log2(math.e))
    fixed = {
        "CAUSAL": shape.causal,
        "WINDOW": shape.window or 0,
        "PADDED": lengths is not None,
        "LOGS": logs is not None,
        "D": shape.d_head,
        "DV": shape.d_value,
        "BLOCK_D": power_of_two(shape.d_head),
        "BLOCK_DV": power_of_two(shape.d_value),
    }
    arguments = (q, k, v, out, q if logs is None else logs, q if lengths is None else lengths, *strides, *sizes)
    kernel: Any = prefill_kernel
    if q.is_cuda:

        def grid(chosen: dict[str, int]) -> tuple[int]:
            return (triton.cdiv(shape.seq, chosen["BLOCK_M"]) * shape.batch * shape.heads,)

        tuned_prefill[grid](*arguments, **fixed)
    else:
        programs = triton.cdiv(shape.seq, 16) * shape.batch * shape.heads
        kernel[(programs,)](*arguments, **fixed, BLOCK_M=16, BLOCK_N=16)
    return out


tuned_prefill: Any = triton.autotune(_configs(), key=["seq", "CAUSAL", "WINDOW", "LOGS", "BLOCK_D", "BLOCK_DV"])(
    prefill_kernel
)


def lengths_of(q: Tensor, shape: AttentionShape) -> Tensor | None:
    """How many keys of each sequence are real, on the device; None where all are."""
    return None if shape.lengths is None else torch.tensor(shape.lengths, dtype=torch.int32, device=q.device)


def power_of_two(size: int) -> int:
    """The smallest power of two that is at least `size` and 16, the least that a matrix unit takes."""
    return max(triton.next_power_of_2(size), 16)
