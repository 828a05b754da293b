"""Attention within windows of patches, and the merging of patches: the twins of `calc.blocks.windows`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Attention, Merge, PooledAttention, WindowAttention
from reference_models.blocks.attend import attend
from reference_models.blocks.axis_windows import AlongAxes
from reference_models.blocks.directions import add_directions, by_direction, made_bias
from reference_models.blocks.linear import NormLayer
from reference_models.blocks.planes import in_windows, out_of_windows
from reference_models.blocks.pooled_windows import InPlainWindows, Pooling
from reference_models.step import Step
from reference_models.support import supported

APART = -100.0
"""What is added to the score of two patches that only the shift brought together (the code of Liu et al. 2021)."""


class InWindows(nn.Module):
    """Every patch sees those of its window; `step.grid` says how many rows and columns there are."""

    name = "attention"

    def __init__(self, spec: WindowAttention, d_model: int) -> None:
        super().__init__()
        supported(spec, "n_heads", "side", "shifted", "qkv_bias", "d_relative_bias")
        assert spec.side is not None, "plain windows have a module of their own"
        self.spec, self.side = spec, spec.side
        self.core = Attention(n_heads=spec.n_heads, causal=False, position="none")
        for name in ("q_proj", "k_proj", "v_proj"):
            bias = spec.qkv_bias and not (spec.d_relative_bias and name == "k_proj")
            self.add_module(name, nn.Linear(d_model, d_model, bias=bias))
        if spec.d_relative_bias is None:
            self.relative_bias = WaysToLie(spec.n_heads, spec.side)
        else:
            add_directions(self, spec, spec.d_relative_bias)
        self.o_proj = nn.Linear(d_model, d_model)

    def new_cache(self, length: int | None) -> None:
        """Patches see those to come, so nothing is kept."""

    def forward(self, x: Tensor, step: Step, cache: Any = None) -> Tensor:
        """x [batch, rows * columns, d_model] -> the same shape. Errors: ValueError where no picture has been read."""
        if step.grid is None:
            raise ValueError("windows: expected a front that reads pictures, found none")
        (rows, columns), side = step.grid, self.side
        fill = -rows % side, -columns % side
        shift = side // 2 if self.spec.shifted and min(rows, columns) > side else 0
        plane = F.pad(x.unflatten(1, (rows, columns)), (0, 0, 0, fill[1], 0, fill[0]))
        filled = plane.shape[1:3]
        apart = in_windows(plane.roll((-shift, -shift), (1, 2)) if shift else plane, side)
        bias = self.relative_bias() if self.spec.d_relative_bias is None else made_bias(self, side)
        if shift:
            bias = bias + came_together(filled, side, shift, x).repeat(len(x), 1, 1)[:, None]
        q, k, v = (self._heads(self.get_submodule(f"{name}_proj")(apart)) for name in "qkv")
        y = (
            attend(self.core, q, k, v, step, bias=bias)
            if self.spec.d_relative_bias is None
            else by_direction(self, q, k, v, bias, step)
        )
        y = self.o_proj(y.transpose(1, 2).flatten(2))
        plane = out_of_windows(y, side, filled)
        plane = plane.roll((shift, shift), (1, 2)) if shift else plane
        return plane[:, :rows, :columns].flatten(1, 2)

    def _heads(self, x: Tensor) -> Tensor:
        """[windows, side^2, d_model] -> [windows, n_heads, side^2, d_head]."""
        return x.unflatten(-1, (self.spec.n_heads, -1)).transpose(1, 2)


def windows_of(spec: WindowAttention, d_model: int) -> InWindows | InPlainWindows | AlongAxes:
    """The module that twins it."""
    if spec.axes is not None:
        return AlongAxes(spec, d_model)
    return (InPlainWindows if spec.plain else InWindows)(spec, d_model)


def merging(spec: Merge | PooledAttention, d_model: int) -> Merging | Pooling:
    """What stands ahead of a stage."""
    return Pooling(spec, d_model) if isinstance(spec, PooledAttention) else Merging(spec, d_model)


class WaysToLie(nn.Module):
    """A number of each head for each way in which two patches of a window can lie, [(2 * side - 1)^2, n_heads]."""

    def __init__(self, n_heads: int, side: int) -> None:
        super().__init__()
        self.side = side
        self.weight = nn.Parameter(torch.empty((2 * side - 1) ** 2, n_heads).normal_(std=0.02))

    def forward(self) -> Tensor:
        """[1, n_heads, side^2, side^2], by query and key."""
        ways = relative_positions(self.side, self.weight.device)
        return self.weight[ways].permute(2, 0, 1).contiguous()[None]


def relative_positions(side: int, device: torch.device) -> Tensor:
    """[side^2, side^2]: the number of the way in which each key lies from each query."""
    at = torch.arange(side, device=device)
    row, column = (each.flatten() for each in torch.meshgrid(at, at, indexing="ij"))
    down, across = (each[:, None] - each[None] + side - 1 for each in (row, column))
    return down * (2 * side - 1) + across


class Merging(nn.Module):
    """[batch, rows * columns, d] -> [batch, ceil(rows / 2) * ceil(columns / 2), d_merged]."""

    def __init__(self, spec: Merge, d_model: int) -> None:
        super().__init__()
        supported(spec, "d_merged", "norm", "norm_of")
        self.first = spec.norm_of == "read"
        self.norm = NormLayer(spec.norm, (4 * d_model if self.first else spec.d_merged,))
        self.dense = nn.Linear(4 * d_model, spec.d_merged, bias=False)

    def forward(self, x: Tensor, step: Step) -> tuple[Tensor, Step]:
        """The vectors, and the step of those that read them."""
        rows, columns = step.grid or (0, 0)
        plane = F.pad(x.unflatten(1, (rows, columns)), (0, 0, 0, columns % 2, 0, rows % 2))
        four = torch.cat([plane[:, row::2, column::2] for column in range(2) for row in range(2)], -1)
        grid = (four.shape[1], four.shape[2])
        positions = torch.arange(grid[0] * grid[1], device=x.device)[None]
        four = four.flatten(1, 2)
        made = self.dense(self.norm(four)) if self.first else self.norm(self.dense(four))
        return made, replace(step, grid=grid, positions=positions)


def came_together(filled: torch.Size, side: int, shift: int, x: Tensor) -> Tensor:
    """[windows, side^2, side^2]: 0, and APART where a row or column went round the picture's edge between the two."""
    went = [(torch.arange(n, device=x.device) >= n - shift) for n in filled]
    region = (2 * went[0][:, None] + went[1][None]).to(x.dtype)[None, ..., None]
    of_window = in_windows(region, side)[..., 0]
    apart = of_window[:, :, None] != of_window[:, None]
    return torch.zeros(apart.shape, dtype=x.dtype, device=x.device).masked_fill(apart, APART)
