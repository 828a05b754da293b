"""Pictures in: patches as vectors, learned vectors beside them, positions that follow the picture's size."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Patches, WindowedPositions
from reference_models.blocks.linear import NormLayer
from reference_models.interpolate import interpolated
from reference_models.step import Step
from reference_models.support import supported

FIELDS = (
    *("height", "width", "patch_height", "patch_width", "stride_height", "stride_width", "channels", "frames", "bias"),
    *("n_special", "n_registers", "special_last", "n_positions", "position_tables", "resize", "centered", "norm"),
    *("mask_vector", "norm_of", "masked", "trained_positions", "filled", "padding", "windowed"),
)
"""Fields of the spec that are computed here."""


class PatchEmbedding(nn.Module):
    """Pictures [batch, channels, height, width] -> vectors [batch, n_special + rows * columns, d_model].

    A still picture is laid in all `frames` of a patch that spans several. For another number of rows or columns than
    the table has, positions are interpolated, those of the learned vectors left as they are (see `interpolated`).
    With two tables a patch has the sum of its column's and its row's. `step` is told what stands where.
    """

    def __init__(self, spec: Patches, vocab_size: int | None, d_model: int) -> None:
        super().__init__()
        supported(spec, *FIELDS)
        self.spec = spec
        kernel = (spec.patch_height, spec.patch_width)
        stride = (spec.stride_height or spec.patch_height, spec.stride_width or spec.patch_width)
        if spec.frames == 1:
            self.patch = nn.Conv2d(spec.channels, d_model, kernel, stride, padding=spec.padding, bias=spec.bias)
        else:
            across = (spec.frames, *kernel)
            self.patch = nn.Conv3d(spec.channels, d_model, across, (spec.frames, *stride), bias=spec.bias)
        if spec.n_special:
            self.special = Table(spec.n_special, d_model)
        if spec.n_registers:
            self.registers = Table(spec.n_registers, d_model)
        if spec.mask_vector:
            self.mask = Table(d_model)
        if spec.n_positions is not None:
            tables = () if spec.position_tables == 1 else (spec.position_tables,)
            self.position = Table(*tables, spec.n_positions, d_model)
            self.position.weight.requires_grad_(spec.trained_positions)
        if spec.windowed is not None:
            self.position = Table(spec.windowed.rows * spec.windowed.columns, d_model)
            self.window = Table(spec.windowed.side**2, d_model)
        if spec.norm is not None:
            self.norm = NormLayer(spec.norm, (d_model,))

    def forward(self, pixels: Tensor, step: Step) -> Tensor:
        spec = self.spec
        if spec.centered:
            pixels = 2 * pixels - 1
        if spec.frames > 1:
            pixels = pixels[:, :, None].expand(-1, -1, spec.frames, -1, -1)
        if spec.filled:
            height, width = pixels.shape[-2:]
            pixels = F.pad(pixels, (0, -width % spec.patch_width, 0, -height % spec.patch_height))
        x = self.patch(pixels)
        rows, columns = x.shape[-2:]
        x = x.flatten(2).transpose(1, 2)
        at = torch.arange(rows * columns, device=x.device)
        step.grid, step.places = (rows, columns), torch.stack([at // columns, at % columns])
        if spec.masked is not None:
            return self._unmasked(x, spec.masked, self.positions(rows, columns), step)
        if spec.n_special:
            special = self.special.weight.expand(len(x), -1, -1)
            x = torch.cat([x, special] if spec.special_last else [special, x], dim=1)
            padding = (0, spec.n_special) if spec.special_last else (spec.n_special, 0)
            step.places = F.pad(step.places, padding, value=-1)
        # Laid vector by vector: products that read the picture as it lies would each copy it.
        x = x.contiguous()
        if spec.norm_of == "patches":
            x = self.norm(x)
        if spec.n_positions is not None:
            x = x + self.positions(rows, columns).to(self.position.weight.dtype)
        if spec.windowed is not None:
            x = x + self.in_windows(spec.windowed, rows, columns)
        if spec.n_registers:
            step.places = F.pad(step.places, (spec.n_registers, 0), value=-1)
            x = self._registered(x)
        return self.norm(x) if spec.norm is not None and spec.norm_of == "sum" else x

    def _unmasked(self, x: Tensor, masked: float, positions: Tensor, step: Step) -> Tensor:
        """Patches x that are not masked, in the order of random numbers, with their positions, behind the learned
        vectors with theirs; `step` is told where each patch came to stand."""
        special = self.spec.n_special
        x = x + positions[special:]
        order = torch.rand(x.shape[:2], device=x.device).argsort(1)
        step.restore = order.argsort(1)
        seen = order[:, : int(x.shape[1] * (1 - masked))]
        x = x.gather(1, seen[..., None].repeat(1, 1, x.shape[-1]))
        if not special:
            return x
        ahead = self.special.weight + positions[:special]
        return torch.cat([ahead.expand(len(x), -1, -1), x], dim=1)

    def _registered(self, x: Tensor) -> Tensor:
        """x with the registers between the other learned vectors and the patches."""
        ahead, behind = x.split([self.spec.n_special, x.shape[1] - self.spec.n_special], dim=1)
        return torch.cat([ahead, self.registers.weight.expand(len(x), -1, -1), behind], dim=1)

    def in_windows(self, spec: WindowedPositions, rows: int, columns: int) -> Tensor:
        """[rows * columns, d_model]: the grid's vectors at this size, and those of each place in its window."""
        grid, window = self.position.weight.T.unflatten(1, (spec.rows, -1)), self.window.weight.T
        far = F.interpolate(grid[None], size=(rows, columns), mode="bicubic")
        near = window.unflatten(1, (spec.side, -1)).repeat(1, rows // spec.side, columns // spec.side)
        return (far[0] + near).flatten(1).T

    def positions(self, rows: int, columns: int) -> Tensor:
        """[n_special + rows * columns, d_model] for a picture of so many patches."""
        table = self.position.weight
        if self.spec.position_tables > 1:
            across, down = table[0, :columns], table[1, :rows]
            return (down[:, None] + across[None]).flatten(0, 1)
        special, own = self._grid(len(table))
        if own == (rows, columns):
            return table
        if not self.spec.special_last:
            return interpolated(table, own, (rows, columns), special, self.spec.resize)
        behind = interpolated(table.roll(special, 0), own, (rows, columns), special, self.spec.resize)
        return behind.roll(-special, 0)

    def _grid(self, places: int) -> tuple[int, tuple[int, int]]:
        """(learned vectors among a table's places, rows and columns of the rest): its own picture's, or a square's."""
        spec = self.spec
        tall = (spec.height - spec.patch_height) // (spec.stride_height or spec.patch_height) + 1
        wide = (spec.width - spec.patch_width) // (spec.stride_width or spec.patch_width) + 1
        for special in (spec.n_special, 0):
            if tall * wide == places - special:
                return special, (tall, wide)
        for special in (spec.n_special, 0):
            side = math.isqrt(places - special)
            if side * side == places - special:
                return special, (side, side)
        raise NotImplementedError(f"Patches.n_positions = {places}: neither the picture's grid nor a square")

    def example(self, batch: int, seq: int) -> Tensor:
        """Pictures of the model's own size to run without data."""
        weight, spec = self.patch.weight, self.spec
        return torch.zeros(batch, spec.channels, spec.height, spec.width, device=weight.device, dtype=weight.dtype)


class Table(nn.Module):
    """Learned vectors under the name `weight`."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(shape).normal_(std=0.02))
