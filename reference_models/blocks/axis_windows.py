"""Segment Anything's windows, with distances along rows and columns: the twin of `calc.blocks.axis_windows`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Attention, WindowAttention
from reference_models.blocks.attend import attend, fuses
from reference_models.blocks.patches import Table
from reference_models.blocks.planes import in_windows, out_of_windows
from reference_models.step import Step
from reference_models.support import supported


class AlongAxes(nn.Module):
    """Every patch sees those of its window, or all; what is added to scores are products of queries with vectors of
    distances."""

    name = "attention"

    def __init__(self, spec: WindowAttention, d_model: int) -> None:
        super().__init__()
        supported(spec, "n_heads", "side", "qkv_bias", "axes")
        assert spec.axes is not None, "other windows have modules of their own"
        self.spec, self.side = spec, spec.side
        self.core = Attention(n_heads=spec.n_heads, causal=False, position="none")
        self.qkv_proj = nn.Linear(d_model, 3 * d_model, bias=spec.qkv_bias)
        self.o_proj = nn.Linear(d_model, d_model)
        self.row_distance, self.column_distance = (Table(2 * spec.axes - 1, d_model // spec.n_heads) for _ in range(2))

    def new_cache(self, length: int | None) -> None:
        """Patches see those to come, so nothing is kept."""

    def forward(self, x: Tensor, step: Step, cache: Any = None) -> Tensor:
        """x [batch, rows * columns, d_model] -> the same shape. Errors: ValueError where no picture has been read."""
        if step.grid is None:
            raise ValueError("windows: expected a front that reads pictures, found none")
        (rows, columns), side = step.grid, self.side
        if side is None:
            return self._within(x, step.grid, step)
        plane = F.pad(x.unflatten(1, step.grid), (0, 0, 0, -columns % side, 0, -rows % side))
        y = self._within(in_windows(plane, side), (side, side), step)
        return out_of_windows(y, side, plane.shape[1:3])[:, :rows, :columns].flatten(1, 2)

    def _within(self, x: Tensor, sides: tuple[int, int], step: Step) -> Tensor:
        """x [windows, places, d_model] -> the same shape."""
        heads = self.spec.n_heads
        qkv = self.qkv_proj(x).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.reshape(3, len(x) * heads, x.shape[1], -1).unbind(0)
        at = q.unflatten(1, sides)
        of_rows = torch.einsum("bhwc,hkc->bhwk", at, self._vectors(self.row_distance, sides[0]))
        of_columns = torch.einsum("bhwc,wkc->bhwk", at, self._vectors(self.column_distance, sides[1]))
        added = (of_rows[..., None] + of_columns[..., None, :]).reshape(len(x), heads, x.shape[1], x.shape[1])
        q, k, v = (each.unflatten(0, (len(x), heads)) for each in (q, k, v))
        core, scale = self.core, q.shape[-1] ** -0.5
        if not fuses(core, step):
            q, core = q * scale, core.model_copy(update={"scale": 1.0})
        y = attend(core, q, k, v, step, bias=added)
        return self.o_proj(y.transpose(1, 2).flatten(2))

    def _vectors(self, table: nn.Module, n: int) -> Tensor:
        """[n, n, d_head]: of each place's distance from each other one."""
        places = torch.arange(n, device=self.o_proj.weight.device)
        return F.embedding(places[:, None] - places[None] + n - 1, table.get_parameter("weight"))
