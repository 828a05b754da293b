"""SAM 2's windows and layers that pool what asks: the twins of `calc.blocks.pooled_windows`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Attention, PooledAttention, WindowAttention
from reference_models.blocks.attend import attend
from reference_models.blocks.linear import NormLayer
from reference_models.blocks.planes import in_windows, out_of_windows
from reference_models.step import Step
from reference_models.support import supported

Grid = tuple[int, int]


class WithinWindows(nn.Module):
    """Attention of patches within windows of side x side, or where side is None within the picture; of stride x stride
    queries the largest values ask."""

    def __init__(self, n_heads: int, side: int | None, d_in: int, d_out: int, stride: int = 1) -> None:
        super().__init__()
        self.n_heads, self.side, self.stride = n_heads, side, stride
        self.core = Attention(n_heads=n_heads, causal=False, position="none")
        self.qkv_proj = nn.Linear(d_in, 3 * d_out)
        self.o_proj = nn.Linear(d_out, d_out)

    def within(self, x: Tensor, grid: Grid, step: Step) -> Tensor:
        """x [batch, rows * columns, d_in] -> [batch, rows * columns / stride^2, d_out]."""
        plane = x.unflatten(1, grid)
        side, rows, columns = self.side, *(each // self.stride for each in grid)
        window = grid
        if side is not None:
            window = (side, side)
            plane = F.pad(plane, (0, 0, 0, -grid[1] % side, 0, -grid[0] % side))
        filled = plane.shape[1:3]
        apart = plane.flatten(1, 2) if side is None else in_windows(plane, side)
        q, k, v = self.qkv_proj(apart).chunk(3, dim=-1)
        self._across_heads(q, k)
        if self.stride > 1:
            q = largest(q, window, self.stride)
        q, k, v = (self._heads(each) for each in (q, k, v))
        y = attend(self.core, q, k, v, step, plain=True)
        y = self.o_proj(y.transpose(1, 2).flatten(2))
        if side is None:
            return y
        fewer = torch.Size(each // self.stride for each in filled)
        return out_of_windows(y, side // self.stride, fewer)[:, :rows, :columns].flatten(1, 2)

    def _heads(self, x: Tensor) -> Tensor:
        """[windows, places, d_out] -> [windows, n_heads, places, d_head]."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    @torch.no_grad()
    def _across_heads(self, q: Tensor, k: Tensor) -> None:
        """Heads of each patch meet one another, as transformers' do, and nothing reads what comes of it."""
        q, k = (each.unflatten(-1, (self.n_heads, -1)) for each in (q, k))
        (q @ k.transpose(-2, -1)).softmax(-1)


class InPlainWindows(WithinWindows):
    """Every patch sees those of its window; `step.grid` says how many rows and columns there are."""

    name = "attention"

    def __init__(self, spec: WindowAttention, d_model: int) -> None:
        supported(spec, "n_heads", "side", "plain")
        super().__init__(spec.n_heads, spec.side, d_model, d_model)

    def new_cache(self, length: int | None) -> None:
        """Patches see those to come, so nothing is kept."""

    def forward(self, x: Tensor, step: Step, cache: Any = None) -> Tensor:
        """x [batch, rows * columns, d_model] -> the same shape. Errors: ValueError where no picture has been read."""
        if step.grid is None:
            raise ValueError("windows: expected a front that reads pictures, found none")
        return self.within(x, step.grid, step)


class Pooling(WithinWindows):
    """[batch, rows * columns, d] -> [batch, rows * columns / stride^2, d_merged]: half a layer between two stages."""

    def __init__(self, spec: PooledAttention, d_model: int) -> None:
        supported(spec, "d_merged", "n_heads", "side", "stride", "norm")
        super().__init__(spec.n_heads, spec.side, d_model, spec.d_merged, spec.stride)
        self.norm = NormLayer(spec.norm, (d_model,))
        self.proj = nn.Linear(d_model, spec.d_merged)

    def forward(self, x: Tensor, step: Step) -> tuple[Tensor, Step]:
        """The vectors, and the step of those that read them."""
        grid = step.grid or (0, 0)
        read = self.norm(x)
        kept = self.proj(read)
        kept = largest(kept, grid, self.stride) if self.stride > 1 else kept
        fewer = grid[0] // self.stride, grid[1] // self.stride
        positions = torch.arange(fewer[0] * fewer[1], device=x.device)[None]
        # Of what stands between layers nothing is recomputed.
        found = self.within(read, grid, replace(step, checkpointing="none"))
        return kept + found, replace(step, grid=fewer, positions=positions)


def largest(x: Tensor, grid: Grid, stride: int) -> Tensor:
    """x [n, rows * columns, d] -> [n, rows * columns / stride^2, d], value by value the largest of stride x stride."""
    plane = x.unflatten(1, grid).permute(0, 3, 1, 2)
    return F.max_pool2d(plane, stride, stride).permute(0, 2, 3, 1).flatten(1, 2)
