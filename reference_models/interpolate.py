"""Learned positions of pictures, carried over to another size of picture: two-dimensional interpolation."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from reference_models.blocks.linear import wide

Resize = Literal["bicubic", "bilinear", "bilinear-corners", "bilinear-smooth"]
SHARPNESS = -0.75
"""The cubic kernel's free number, PyTorch's choice; Keys 1981 recommends -0.5."""


def interpolated(
    positions: Tensor, old: tuple[int, int], new: tuple[int, int], special: int = 1, how: Resize = "bicubic"
) -> Tensor:
    """[special + rows * columns, d] for `old` (rows, columns) of patches -> the same for `new`.

    The first `special` rows (class token, distillation, registers) stay as they are; the others are laid out as a
    picture of d channels and resized: with bicubic interpolation, pixels as areas, without smoothing, as
    torch.nn.functional.interpolate(mode="bicubic", align_corners=False) does; or, `bilinear-corners`, on straight lines
    between pixels as points, the outermost of which stay where they are (mode="bilinear", align_corners=True), or,
    `bilinear`, between the middles of pixels (mode="bilinear", align_corners=False); or,
    `bilinear-smooth`, as a mean over all that a pixel of a smaller picture covers, the nearer the more
    (mode="bilinear", align_corners=False, antialias=True).
    Source: Dosovitskiy et al. 2021 (arXiv:2010.11929), section 3.2; bicubic as in DINO (Caron et al. 2021,
    arXiv:2104.14294). DINO's code stretches by (new + 0.1) / old against rounding, which is left out here: the result
    has the size that was asked for.
    Errors: ValueError where the rows are not special + rows * columns.
    """
    if len(positions) != special + old[0] * old[1]:
        raise ValueError(f"positions: expected {special} + {old[0]} * {old[1]} rows, found {len(positions)}")
    if old == new:
        return positions
    grid = wide(positions[special:]).view(*old, -1)
    grid = _stretched(_stretched(grid, new[0], how).transpose(0, 1), new[1], how).transpose(0, 1)
    return torch.cat([positions[:special], grid.flatten(0, 1).to(positions.dtype)])


def _stretched(x: Tensor, length: int, how: Resize) -> Tensor:
    """x [n, ...] -> [length, ...]: a weighted sum of the nearest each, the edge in place of what lies beyond."""
    if how == "bilinear-corners":
        at = torch.arange(length, device=x.device, dtype=x.dtype) * (len(x) - 1) / max(length - 1, 1)
        return _between(x, at)
    # The middle of pixel i lies at i + 1/2, in units of the old pixels.
    at = (torch.arange(length, device=x.device, dtype=x.dtype) + 0.5) * len(x) / length - 0.5
    if how == "bilinear":
        return _between(x, at.clamp(0, len(x) - 1))
    if how == "bilinear-smooth":
        reach = max(len(x) / length, 1.0)
        every = torch.arange(len(x), device=x.device, dtype=x.dtype)
        weights = (1 - (at[:, None] - every).abs() / reach).clamp(min=0)
        return torch.tensordot(weights / weights.sum(1, keepdim=True), x, dims=1)
    four = at.floor().long()[:, None] + torch.arange(-1, 3, device=x.device)
    weights = cubic(at[:, None] - four)
    return (x[four.clamp(0, len(x) - 1)] * weights.view(*four.shape, *[1] * (x.dim() - 1))).sum(1)


def _between(x: Tensor, at: Tensor) -> Tensor:
    """x [n, ...] at places from 0 to n - 1, on straight lines between neighbours."""
    first = at.floor().long().clamp(max=max(len(x) - 2, 0))
    return torch.lerp(x[first], x[(first + 1).clamp(max=len(x) - 1)], (at - first).view(-1, *[1] * (x.dim() - 1)))


def cubic(distance: Tensor) -> Tensor:
    """The weight of a point at that distance: Keys' cubic convolution kernel, 1 at 0 and 0 at 1 and from 2 on.

    Source: Keys 1981, Cubic convolution interpolation for digital image processing, with a = SHARPNESS.
    """
    a, t = SHARPNESS, distance.abs()
    near = (a + 2) * t**3 - (a + 3) * t**2 + 1
    far = a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a
    return torch.where(t <= 1, near, torch.where(t < 2, far, torch.zeros_like(t)))
