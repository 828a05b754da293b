"""Decoding in Triton: the keys of one sequence split over many programs, each read once for all query heads of a group.

As flash-decoding does (Dao, Haziza, Massa, Sizov 2023): one new token gives one row a head, far too little to fill a
GPU, so programs share the keys and a second kernel combines what they found.
"""

# Triton reads the kernels itself: its ranges are no Python types.
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from calc.attention.shape import AttentionShape
from harness.kernels.triton_prefill import lengths_of, power_of_two
from harness.kernels.triton_tiles import attend_all

_PROGRAMS_A_CORE = 4
_MOST_SPLITS = 128


@triton.jit
def decode_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    partial_ptr,
    log_ptr,
    lengths_ptr,
    table_ptr,
    stride_qb,
    stride_qh,
    stride_qm,
    stride_kb,
    stride_kh,
    stride_kn,
    stride_vb,
    stride_vh,
    stride_vn,
    kv_heads,
    group,
    seq,
    keys,
    splits,
    each,
    pages,
    scale,
    CAUSAL: tl.constexpr,  # noqa: N803
    WINDOW: tl.constexpr,  # noqa: N803
    PADDED: tl.constexpr,  # noqa: N803
    PAGE: tl.constexpr,  # noqa: N803
    D: tl.constexpr,  # noqa: N803
    DV: tl.constexpr,  # noqa: N803
    BLOCK_R: tl.constexpr,  # noqa: N803
    BLOCK_D: tl.constexpr,  # noqa: N803
    BLOCK_DV: tl.constexpr,  # noqa: N803
    BLOCK_N: tl.constexpr,  # noqa: N803
):
    """One share of `each` keys for all rows of one key head: their mean value, and log2 of the sum of weights.

    table [batch, pages]: where the pages of each sequence lie, where PAGE is not 0.
    """
    program = tl.program_id(0)
    split, place = program % splits, program // splits
    batch = (place // kv_heads).to(tl.int64)
    head = (place % kv_heads).to(tl.int64)
    end = tl.load(lengths_ptr + batch) if PADDED else keys
    begin = split * each
    end = tl.minimum(end, begin + each)

    rows = tl.arange(0, BLOCK_R)
    dims = tl.arange(0, BLOCK_D)
    real = rows < group * seq
    q_row = (head * group + rows % group) * stride_qh + rows // group * stride_qm
    q = tl.load(
        q_ptr + batch * stride_qb + q_row[:, None] + dims[None, :], mask=real[:, None] & (dims[None, :] < D), other=0.0
    )
    offset = keys - seq
    sums, total, highest = attend_all(
        q,
        k_ptr + batch * stride_kb + head * stride_kh,
        v_ptr + batch * stride_vb + head * stride_vh,
        table_ptr + batch * pages, stride_kn, stride_vn, rows // group + offset, offset, keys - 1, begin, end, scale,
        CAUSAL, WINDOW, PAGE, D, DV, BLOCK_DV, BLOCK_N,
    )  # fmt: skip
    seen = total > 0.0
    total = tl.where(seen, total, 1.0)
    value_dims = tl.arange(0, BLOCK_DV)
    row = program.to(tl.int64) * BLOCK_R + rows
    tl.store(
        partial_ptr + row[:, None] * DV + value_dims[None, :],
        sums / total[:, None],
        mask=real[:, None] & (value_dims[None, :] < DV),
    )
    tl.store(log_ptr + row, tl.where(seen, highest + tl.math.log2(total), float("-inf")), mask=real)


@triton.jit
def combine_kernel(
    partial_ptr,
    log_ptr,
    out_ptr,
    stride_ob,
    stride_oh,
    stride_om,
    kv_heads,
    group,
    seq,
    splits,
    DV: tl.constexpr,  # noqa: N803
    BLOCK_R: tl.constexpr,  # noqa: N803
    BLOCK_DV: tl.constexpr,  # noqa: N803
    BLOCK_S: tl.constexpr,  # noqa: N803
    CHUNK: tl.constexpr,  # noqa: N803
):
    """One row: the shares' means, each weighted with 2 to its log."""
    program = tl.program_id(0)
    row, place = program % (group * seq), program // (group * seq)
    base = place.to(tl.int64) * splits
    shares = tl.arange(0, BLOCK_S)
    logs = tl.load(log_ptr + (base + shares) * BLOCK_R + row, mask=shares < splits, other=float("-inf"))
    highest = tl.max(logs, 0)
    highest = tl.where(highest == float("-inf"), 0.0, highest)
    total = tl.sum(tl.math.exp2(logs - highest), 0)
    dims = tl.arange(0, BLOCK_DV)
    sums = tl.zeros([BLOCK_DV], tl.float32)
    for start in tl.range(0, splits, CHUNK):
        some = start + tl.arange(0, CHUNK)
        rows = (base + some) * BLOCK_R + row
        weights = tl.math.exp2(tl.load(log_ptr + rows, mask=some < splits, other=float("-inf")) - highest)
        inside = (some[:, None] < splits) & (dims[None, :] < DV)
        means = tl.load(partial_ptr + rows[:, None] * DV + dims[None, :], mask=inside, other=0.0)
        sums += tl.sum(weights[:, None] * means, 0)
    out = sums / tl.where(total == 0.0, 1.0, total)
    batch, head = (place // kv_heads).to(tl.int64), (place % kv_heads) * group + row % group
    target = out_ptr + batch * stride_ob + head * stride_oh + row // group * stride_om + dims
    tl.store(target, out.to(out_ptr.dtype.element_ty), mask=dims < DV)


tuned_decode = triton.autotune(
    [triton.Config({}, num_warps=warps, num_stages=stages) for warps in (2, 4, 8) for stages in (2, 3, 4)],
    key=["CAUSAL", "WINDOW", "PAGE", "BLOCK_R", "BLOCK_D", "BLOCK_DV", "BLOCK_N"],
)(decode_kernel)


@dataclass(frozen=True)
class Pages:
    """Keys and values of a batch as engines keep them (Kwon et al. 2023, arXiv:2309.06180): pages of so many tokens,
    each anywhere in one pool.

    keys [pages, tokens a page, kv_heads, d_head], values [.., d_value]. table [batch, pages a sequence], int32.
    """

    keys: Tensor
    values: Tensor
    table: Tensor

    @property
    def strides(self) -> list[int]:
        """Of keys, then values: none from sequence to sequence, from head to head, from token to token."""
        return [stride for pool in (self.keys, self.values) for stride in (0, pool.stride(2), pool.stride(1))]


def decode(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    shape: AttentionShape,
    splits: int | None = None,
    pages: Pages | None = None,
) -> Tensor:
    """Output [batch, heads, seq, d_value]; splits: programs a key head, None: as many as fill the device.

    pages: where keys and values lie, instead of k and v.
    """
    columns = (16 if shape.d_head <= 256 else 32) if not q.is_cuda else (64 if shape.d_head <= 256 else 32)
    splits, each = share(shape, columns, _cores(q), splits)
    rows, places = power_of_two(shape.group * shape.seq), shape.batch * shape.kv_heads
    partial = torch.empty(places * splits, rows, shape.d_value, dtype=torch.float32, device=q.device)
    logs = torch.empty(places * splits, rows, dtype=torch.float32, device=q.device)
    lengths = lengths_of(q, shape)
    strides = [stride for tensor in (q, k, v) for stride in tensor.stride()[:3]]
    table, page, row = q, 0, 0
    if pages is not None:
        k, v, table, strides = pages.keys, pages.values, pages.table, [*q.stride()[:3], *pages.strides]
        page, row = k.shape[1], table.shape[1]
    scale = shape.d_head**-0.5 * math.log2(math.e)
    fixed = {"DV": shape.d_value, "BLOCK_R": rows, "BLOCK_DV": power_of_two(shape.d_value)}
    first: Any = tuned_decode if q.is_cuda else decode_kernel
    second: Any = combine_kernel
    first[(places * splits,)](
        *(q, k, v, partial, logs, q if lengths is None else lengths, table, *strides),
        *(shape.kv_heads, shape.group, shape.seq, shape.keys, splits, each, row, scale),
        CAUSAL=shape.causal,
        WINDOW=shape.window or 0,
        PADDED=lengths is not None,
        PAGE=page,
        D=shape.d_head,
        BLOCK_D=power_of_two(shape.d_head),
        BLOCK_N=columns,
        **fixed,
    )
    out = q.new_empty(*q.shape[:-1], shape.d_value)
    second[(places * shape.group * shape.seq,)](
        *(partial, logs, out, *out.stride()[:3], shape.kv_heads, shape.group, shape.seq, splits),
        BLOCK_S=triton.next_power_of_2(splits),
        CHUNK=min(triton.next_power_of_2(splits), 16),
        **fixed,
    )
    return out


def share(shape: AttentionShape, columns: int, cores: int, splits: int | None = None) -> tuple[int, int]:
    """(programs a key head, keys of each, a multiple of `columns`): enough to fill `cores`, and none without keys."""
    tiles = triton.cdiv(shape.keys, columns)
    wanted = splits or _PROGRAMS_A_CORE * cores // (shape.batch * shape.kv_heads)
    each = triton.cdiv(tiles, max(1, min(wanted, tiles, _MOST_SPLITS))) * columns
    return triton.cdiv(shape.keys, each), each


def _cores(tensor: Tensor) -> int:
    if not tensor.is_cuda:
        return 1
    return torch.cuda.get_device_properties(tensor.device).multi_processor_count
