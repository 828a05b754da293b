"""Pictures in tiles: the twin of `calc.blocks.tiles`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Stages, Tiles
from reference_models.blocks.linear import NormLayer
from reference_models.blocks.patches import Table
from reference_models.step import Step
from reference_models.support import supported

FIELDS = ("n_tiles", "n_shapes", "height", "width", "patch_height", "patch_width", "channels", "whole", "norm")
"""Fields of the spec that are computed here."""


class Gate(nn.Module):
    """The tanh of one learned number, anew whenever it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self) -> Tensor:
        return self.weight.tanh()


class TileVectors(nn.Module):
    """A gated vector of each tile, by the shape of its picture."""

    tile: Table
    tile_gate: Gate

    def add_tables(self, spec: Tiles, d_model: int) -> None:
        self.tile = Table(spec.n_shapes, spec.n_tiles * d_model)
        self.tile_gate = Gate()

    def with_tiles(self, x: Tensor, shapes: Tensor) -> Tensor:
        """x [batch, n_tiles, n, d_model] -> the same shape. shapes [batch]."""
        found = F.embedding(shapes, self.tile.weight).unflatten(-1, (-1, 1, x.shape[-1]))
        return x + found * self.tile_gate()


class TileEmbedding(TileVectors):
    """Pictures [batch, n_tiles, channels, height, width] -> [batch, n_tiles * filled, d_model].

    All of a picture's tiles are read, and it is taken to have the last of the shapes. `step` is told the shapes and the
    mask.
    """

    def __init__(self, spec: Tiles, vocab_size: int | None, d_model: int) -> None:
        super().__init__()
        supported(spec, *FIELDS)
        self.spec = spec
        kernel = (spec.patch_height, spec.patch_width)
        self.patch = nn.Conv2d(spec.channels, d_model, kernel, kernel, bias=False)
        self.add_tables(spec, d_model)
        self.special = Table(1, d_model)
        n = (spec.height // spec.patch_height) * (spec.width // spec.patch_width) + 1
        self.position = Table(n, d_model)
        self.place = Table(spec.n_shapes, spec.n_tiles * n * d_model)
        self.place_gate = Gate()
        self.norm = NormLayer(spec.norm, (d_model,))

    def forward(self, pictures: Tensor, step: Step) -> Tensor:
        step.shapes = torch.full(pictures.shape[:1], self.spec.n_shapes - 1, device=pictures.device)
        x = self.patch(pictures.flatten(0, 1)).flatten(2).transpose(1, 2).unflatten(0, pictures.shape[:2])
        x = self.with_tiles(x, step.shapes).flatten(0, 1)
        x = torch.cat([self.special.weight.expand(len(x), 1, -1), x], dim=1).unflatten(0, pictures.shape[:2])
        x = x + (1 - self.place_gate()) * self.position.weight
        found = F.embedding(step.shapes, self.place.weight).unflatten(-1, x.shape[1:])
        x = self.norm(x + self.place_gate() * found)
        n = x.shape[2]
        x = F.pad(x, (0, 0, 0, -n % self.spec.whole))
        step.added_to_scores = self._mask(x, n)
        return x.flatten(1, 2)

    def _mask(self, x: Tensor, n: int) -> Tensor:
        """[batch, 1, length, length]: what keeps two vectors apart of which both fill up. Where nothing does,
        transformers takes all vectors for such."""
        fills = torch.zeros(x.shape[:3], dtype=self.norm.weight.dtype, device=x.device)
        fills[:, :, n % x.shape[2] :] = 1
        column = fills.flatten(1)[..., None]
        return (column @ column.transpose(1, 2) * torch.finfo(fills.dtype).min)[:, None]

    def example(self, batch: int, seq: int) -> Tensor:
        """Pictures to run without data."""
        weight, spec = self.patch.weight, self.spec
        shape = (batch, spec.n_tiles, spec.channels, spec.height, spec.width)
        return torch.zeros(shape, device=weight.device, dtype=weight.dtype)


class Between(TileVectors):
    """What stands between two stages of layers, and behind the second one."""

    def __init__(self, spec: Stages, front: Tiles, d_model: int) -> None:
        super().__init__()
        supported(spec, "norm", "beside")
        self.front = front
        self.norm = NormLayer(spec.norm, (d_model,))
        self.add_tables(front, d_model)

    def forward(self, x: Tensor, shapes: Tensor) -> Tensor:
        """x [batch, length, d_model] -> the same shape."""
        return self.with_tiles(self.norm(x).unflatten(1, (self.front.n_tiles, -1)), shapes).flatten(1, 2)

    def side_by_side(self, x: Tensor, others: Sequence[Tensor], n: int) -> Tensor:
        """x and those of other layers [batch, length, d_model] -> [batch, n_tiles * n, (1 + others) * d_model]."""
        behind = torch.stack(list(others), dim=-1).flatten(2)
        x, behind = (each.unflatten(1, (self.front.n_tiles, -1))[:, :, :n] for each in (x, behind))
        return torch.cat([x, behind], dim=-1).flatten(1, 2)
