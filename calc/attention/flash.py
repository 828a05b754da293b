"""FlashAttention: what the tiled kernel computes and moves, exactly, as a function of its tiles.

Two orders of its loops. `queries` (FlashAttention-2, Dao 2023, arXiv:2307.08691, algorithms 1 and 2): queries stay on
the chip while keys pass, the log of each row's sum is kept, and backward sums the queries' gradient in main memory in
fp32. `keys` (FlashAttention, Dao et al. 2022, arXiv:2205.14135, algorithms 1 and 4): keys stay while queries pass, the
output, its row maxima and row sums go to main memory and back with every tile, as the queries' gradient does, in the
format of the inputs.

Not counted: softmax's arithmetic beside its exponentials, and the sums over one row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from calc import checks
from calc.attention.cost import Cost
from calc.attention.shape import AttentionShape
from calc.attention.tiles import Blocks, Visits, visits
from calc.errors import Refused
from calc.sizes import Size, ceil_div, minimum
from calc.spec.hardware import Device

Order = Literal["queries", "keys"]
ORDERS: tuple[Order, ...] = get_args(Order)
RESERVED = 1024
"""Bytes of a multiprocessor's memory that CUDA keeps for itself in each block, from compute capability 8.0 on (CUDA C++
Programming Guide, shared memory of compute capability 8.x and 9.0)."""
_SIZES = (16, 32, 64, 128, 256, 512, 1024, 2048)


def flash(shape: AttentionShape, blocks: Blocks, order: Order = "queries") -> Cost:
    """The cost of `shape` in its direction; "backward" is forward and then backward. Errors: Refused."""
    checks.word("order", order, ORDERS)
    seen = visits(shape, blocks)
    forward = _forward(shape, blocks, seen, order)
    return forward if shape.direction == "forward" else forward.then(_backward(shape, blocks, seen, order))


def _forward(shape: AttentionShape, blocks: Blocks, seen: Visits, order: Order) -> Cost:
    d, dv, item, wide = shape.d_head, shape.d_value, shape.item, shape.wide
    rows = shape.batch * shape.heads * shape.seq
    if order == "queries":
        read = item * (seen.rows * d + seen.column_visits * (d + dv))
        written = rows * (item * dv + wide)
        statistics = 1
    else:
        # The output and the two numbers of each row begin as zeros in main memory, then come and go with every tile.
        read = item * seen.columns * (d + dv) + seen.row_visits * (item * (d + dv) + 2 * wide)
        written = (rows + seen.row_visits) * (item * dv + 2 * wide)
        statistics = 2
    return Cost(
        flops=2 * seen.pairs * (d + dv),
        exponentials=seen.pairs + seen.row_visits,
        read=read,
        written=written,
        sram=sram(shape.going("forward"), blocks),
        saved=statistics * wide * rows if shape.direction == "backward" else 0,
        peak=statistics * wide * rows,
    )


def _backward(shape: AttentionShape, blocks: Blocks, seen: Visits, order: Order) -> Cost:
    d, dv, item, wide = shape.d_head, shape.d_value, shape.item, shape.wide
    rows = shape.batch * shape.heads * shape.seq
    columns = shape.batch * shape.kv_heads * shape.keys
    read = item * seen.columns * (d + dv)
    written = item * columns * (d + dv)
    if order == "queries":
        # Beforehand each row's product of output and its gradient; each visit then reads it with the log of the sum.
        cast = 0 if item == wide else rows * d
        read += rows * 2 * item * dv + seen.row_visits * (item * (d + dv) + 2 * wide + wide * d) + cast * wide
        written += rows * wide + rows * d * wide + seen.row_visits * d * wide + cast * item
        peak = wide * rows * (2 + (0 if item == wide else d))
    else:
        read += seen.row_visits * (item * 2 * (d + dv) + 2 * wide)
        written += (rows + seen.row_visits) * item * d
        peak = 2 * wide * rows
    return Cost(
        flops=2 * seen.pairs * (3 * d + 2 * dv),
        exponentials=seen.pairs,
        read=read,
        written=written,
        sram=sram(shape.going("backward"), blocks),
        saved=0,
        peak=peak,
    )


def sram(shape: AttentionShape, blocks: Blocks) -> Size:
    """Bytes on the chip (registers included) of one tile of the largest size, in the shape's direction.

    Forward: q, k and v, their scores, and the output's sums with two numbers a row. Backward: q, k, v and the output's
    gradient, two square tiles, the sums of three gradients and two numbers a row. Sums and squares are wide.
    """
    d, dv, item, wide = shape.d_head, shape.d_value, shape.item, shape.wide
    rows, columns = minimum(blocks.rows, shape.group * shape.seq), minimum(blocks.columns, shape.keys)
    if shape.direction == "forward":
        return item * (rows * d + columns * (d + dv)) + wide * (rows * columns + rows * (dv + 2))
    tiles = item * (rows + columns) * (d + dv)
    return tiles + wide * (2 * rows * columns + rows * (d + 2) + columns * (d + dv))


def on_chip(device: Device) -> int:
    """Bytes that one tile may take on a device. Errors: Refused where its on-chip memory is not known."""
    if device.sram is None:
        raise Refused("--sram", f"bytes, since none are known of {device.name}", None)
    return device.sram.value - RESERVED


def tiles_that_fit(shape: AttentionShape, capacity: int, sizes: tuple[int, ...] = _SIZES) -> Iterator[Blocks]:
    """Every pair of tile sizes from `sizes` that needs at most `capacity` bytes on the chip, in the direction."""
    for rows in sizes:
        for columns in sizes:
            if sram(shape, Blocks(rows, columns)) <= capacity:
                yield Blocks(rows, columns)


def best_blocks(shape: AttentionShape, capacity: int, sizes: tuple[int, ...] = _SIZES) -> Blocks:
    """Of the tiles that fit `capacity` bytes those with the least traffic, then the fewest FLOPs, then the smallest.

    Errors: Refused where none fits.
    """
    found = list(tiles_that_fit(shape, capacity, sizes))
    if not found:
        least = sram(shape, Blocks(sizes[0], sizes[0]))
        raise Refused("sram", f"at least {least:,} bytes, for tiles of {sizes[0]} x {sizes[0]}", f"{capacity:,}")

    def key(blocks: Blocks) -> tuple[Size, Size, Size]:
        cost = flash(shape, blocks)
        return cost.traffic, cost.flops, blocks.rows * blocks.columns

    return min(found, key=key)


def paper_blocks(shape: AttentionShape, capacity: int) -> Blocks:
    """Tiles of FlashAttention's algorithm 1, line 1: ceil(M / 4d) columns and no more than d rows, M in elements."""
    columns = ceil_div(capacity // shape.item, 4 * shape.d_head)
    return Blocks(minimum(columns, shape.d_head), columns)
