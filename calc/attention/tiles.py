"""Which tiles of the score matrix a tiled kernel visits, and how often it therefore reads rows and columns.

The rows of one key head are those of all query heads that share it, the group's heads of one position side by side, so
that a tile of keys read once serves the whole group.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from calc import checks
from calc.attention.shape import AttentionShape
from calc.errors import Refused
from calc.sizes import Size, ceil_div


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


def _walk(shape: AttentionShape, blocks: Blocks, length: Size) -> Visits:
    """The visits of one sequence of `length` real keys and one key head."""
    tiles = rows = columns = row_visits = column_visits = pairs = covered = 0
    for height, low, high in row_tiles(shape, blocks, length):
        start, stop = low * blocks.columns, min(high * blocks.columns, length)
        width = stop - start
        tiles += high - low
        rows += height
        columns += max(stop - max(start, covered), 0)
        covered = max(covered, stop)
        row_visits += height * (high - low)
        column_visits += width
        pairs += height * width
    return Visits(tiles, rows, columns, row_visits, column_visits, pairs)


def row_tiles(shape: AttentionShape, blocks: Blocks, length: Size) -> Iterator[tuple[int, int, int]]:
    """(rows, first tile, tile behind the last) of each row of tiles that sees any of `length` keys, from the top."""
    group, offset, window, (height, width) = shape.group, shape.offset, shape.window, blocks
    total = group * shape.seq
    for start in range(0, total, height):
        stop = min(start + height, total)
        first, last = start // group + offset, (stop - 1) // group + offset
        low = 0 if window is None else max(first - window + 1, 0)
        beyond = last + 1 if shape.causal else length if window is None else last + window
        high = min(beyond, length)
        if low < high:
            yield stop - start, low // width, -(-high // width)
