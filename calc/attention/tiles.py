"""Which tiles of the score matrix a tiled kernel visits, and how often it therefore reads rows and columns.

The rows of one key head are those of all query heads that share it, the group's heads of one position side by side, so
that a tile of keys read once serves the whole group.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from calc import checks
from calc.attention.shape import AttentionShape
from calc.errors import Refused
from calc.sizes import Size, ceil_div

_AT_ONCE = 2**16
"""Rows of tiles that are looked at together, so that memory stays bounded."""


class Blocks(NamedTuple):
    """rows, columns: rows of queries and columns of keys in one tile; the last of each may be smaller."""

    rows: Size
    columns: Size


class Visits(NamedTuple):
    """Sums over the whole batch and all key heads.

    tiles: visited. rows, columns: that any visited tile holds, each once. row_visits: rows summed over visited tiles,
    so what is read of queries when keys stay. column_visits: columns summed over rows of tiles, so what is read of keys
    when queries stay. pairs: elements of visited tiles, hidden ones included.
    """

    tiles: Size
    rows: Size
    columns: Size
    row_visits: Size
    column_visits: Size
    pairs: Size

    def times(self, factor: Size) -> Visits:
        """Every sum `factor` times."""
        return Visits(*(factor * each for each in self))

    def plus(self, other: Visits) -> Visits:
        """The sums of two sets of tiles."""
        return Visits(*(a + b for a, b in zip(self, other, strict=True)))


def visits(shape: AttentionShape, blocks: Blocks) -> Visits:
    """The tiles that hold at least one visible pair. Errors: Refused for sizes that are not ints where masks hide some.

    Without masks it is arithmetic on sizes of any kind; with masks a walk over the rows of tiles.
    """
    checks.size("block", blocks.rows)
    checks.size("block", blocks.columns)
    if not shape.hides:
        return _all(shape, blocks).times(shape.batch * shape.kv_heads)
    sizes = (shape.seq, shape.keys, shape.group, *blocks)
    if not all(type(size) is int for size in sizes):
        raise Refused("shape", "whole numbers where a mask hides tiles", "symbols or arrays")
    if shape.lengths is None:
        return _walk(shape, blocks, shape.keys).times(shape.batch * shape.kv_heads)
    found = Visits(0, 0, 0, 0, 0, 0)
    for length in shape.lengths:
        found = found.plus(_walk(shape, blocks, length).times(shape.kv_heads))
    return found


def _all(shape: AttentionShape, blocks: Blocks) -> Visits:
    rows, columns = shape.group * shape.seq, shape.keys
    down, across = ceil_div(rows, blocks.rows), ceil_div(columns, blocks.columns)
    return Visits(down * across, rows, columns, rows * across, columns * down, rows * columns)


def _walk(shape: AttentionShape, blocks: Blocks, length: int) -> Visits:
    """The visits of one sequence of `length` real keys and one key head, as ints.

    The rows of tiles are all as high as each other but for the last, whose share is put right at the end: products of
    heights and widths never stand in an array, where they might not fit 64 bits.
    """
    import numpy as np

    height, width, total = blocks.rows, blocks.columns, shape.group * shape.seq
    n_tiles = -(-total // height)
    tiles = columns = widths = rows = covered = 0
    short, missing = Visits(0, 0, 0, 0, 0, 0), n_tiles * height - total
    for first in range(0, n_tiles, _AT_ONCE):
        low, high = _seen(shape, np.arange(first, min(first + _AT_ONCE, n_tiles)) * height, height, length)
        sees = low < high
        lows, highs = low[sees] // width, -(-high[sees] // width)
        starts, stops = lows * width, np.minimum(highs * width, length)
        if not len(starts):
            continue
        # Both ends only ever grow, so what is new in a row of tiles lies behind the end of the one before.
        before = np.concatenate(([covered], stops[:-1]))
        rows += len(starts)
        tiles += int((highs - lows).sum())
        widths += int((stops - starts).sum())
        columns += int(np.maximum(stops - np.maximum(starts, before), 0).sum())
        covered = int(stops[-1])
        if first + _AT_ONCE >= n_tiles and sees[-1]:
            across, wide = int(highs[-1] - lows[-1]), int(stops[-1] - starts[-1])
            short = Visits(0, missing, 0, missing * across, 0, missing * wide)
    return Visits(
        tiles,
        height * rows - short.rows,
        columns,
        height * tiles - short.row_visits,
        widths,
        height * widths - short.pairs,
    )


def _seen(shape: AttentionShape, starts: Any, height: int, length: int) -> tuple[Any, Any]:
    """(the first key, the one behind the last) that rows of tiles from `starts` on see of `length` keys; arrays."""
    import numpy as np

    group, window = shape.group, shape.window
    stops = np.minimum(starts + height, group * shape.seq)
    first, last = starts // group + shape.offset, (stops - 1) // group + shape.offset
    low = np.zeros_like(first) if window is None else np.maximum(first - window + 1, 0)
    if not shape.causal and window is None:
        return low, np.full_like(low, length)
    return low, np.minimum(last + (1 if shape.causal else window), length)
