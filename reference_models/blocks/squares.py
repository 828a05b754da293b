"""Attention within squares of a picture's patches: each square is a sequence of its own."""

from __future__ import annotations

from torch import Tensor


def in_squares(x: Tensor, side: int, grid: tuple[int, int] | None) -> Tensor:
    """x [batch, heads, rows * columns, d] -> [batch * squares, heads, side * side, d], each square a sequence.

    Errors: ValueError for a picture that is not made of whole squares, or where there is none.
    """
    if grid is None or grid[0] % side or grid[1] % side:
        raise ValueError(f"image: expected whole squares of {side} x {side} patches, found {grid}")
    rows, columns = grid[0] // side, grid[1] // side
    apart = x.unflatten(2, (rows, side, columns, side)).permute(0, 2, 4, 1, 3, 5, 6)
    return apart.flatten(4, 5).flatten(0, 2)


def out_of_squares(x: Tensor, side: int, grid: tuple[int, int] | None) -> Tensor:
    """The inverse of `in_squares`."""
    rows, columns = (0, 0) if grid is None else (grid[0] // side, grid[1] // side)
    apart = x.unflatten(2, (side, side)).unflatten(0, (-1, rows, columns))
    return apart.permute(0, 3, 1, 4, 2, 5, 6).flatten(2, 5)
