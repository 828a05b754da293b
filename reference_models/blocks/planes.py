"""Planes of patches, cut into windows and put together again."""

from __future__ import annotations

import torch
from torch import Tensor


def in_windows(plane: Tensor, side: int) -> Tensor:
    """plane [batch, rows, columns, d] -> [batch * windows, side * side, d]."""
    apart = plane.unflatten(1, (-1, side)).unflatten(3, (-1, side)).transpose(2, 3)
    return apart.contiguous().flatten(3, 4).flatten(0, 2)


def out_of_windows(x: Tensor, side: int, filled: torch.Size) -> Tensor:
    """The inverse of `in_windows`, for a plane of so many rows and columns."""
    rows, columns = (each // side for each in filled)
    return x.unflatten(1, (side, side)).unflatten(0, (-1, rows, columns)).transpose(2, 3).flatten(1, 2).flatten(2, 3)
