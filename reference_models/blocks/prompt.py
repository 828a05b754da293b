"""Prompts of Segment Anything: the twin of `calc.blocks.prompt`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import MaskDecoder
from reference_models.blocks.linear import ACTIVATIONS, NormLayer


class Prompt(NamedTuple):
    """What is to be found in each picture. points [batch, n, 2]: pixels from the left and from the top; kinds [batch,
    n]: 1 within, 0 without, 2 and 3 corners of a box, -1 no point. mask [batch, 1, 4 * rows, 4 * columns], or None."""

    points: Tensor
    kinds: Tensor
    mask: Tensor | None = None


def sinusoids(places: Tensor, directions: Tensor) -> Tensor:
    """places [..., 2] from 0 to 1 -> [..., width], by directions [2, width / 2]."""
    angles = 2 * math.pi * ((2 * places - 1).to(directions.dtype) @ directions)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class Points(nn.Module):
    """Where each point is and the vector of its kind. sides: height and width of a picture, in pixels."""

    def __init__(self, spec: MaskDecoder, width: int, sides: tuple[int, int]) -> None:
        super().__init__()
        self.spec, self.sides = spec, sides
        self.none = nn.Embedding(1, width)
        alone = (nn.Embedding(1, width) for _ in range(spec.n_kinds))
        self.kind: Any = nn.Embedding(spec.n_kinds, width) if spec.maps else nn.ModuleList(alone)

    def usual(self, image: Tensor, grid: tuple[int, int]) -> Prompt:
        """Points within what is to be found, all of them in a corner, for pictures of vectors [batch, n, width]."""
        points = image.new_zeros(len(image), self.spec.n_points, 2)
        mask = image.new_zeros(len(image), 1, 4 * grid[0], 4 * grid[1]) if self.spec.given_mask else None
        return Prompt(points, torch.ones(points.shape[:2], dtype=torch.long, device=image.device), mask)

    def forward(self, prompt: Prompt, directions: Tensor) -> Tensor:
        """[batch, n + 1, width]; one more stands for no point."""
        points, kinds = F.pad(prompt.points + 0.5, (0, 0, 0, 1)), F.pad(prompt.kinds, (0, 1), value=-1)
        height, width = self.sides
        places = sinusoids(points / points.new_tensor([width, height]), directions)
        x = torch.where(kinds[..., None] == -1, self.none.weight, places)
        x = torch.where(kinds[..., None] != -10, x, torch.zeros_like(x))
        if isinstance(self.kind, nn.Embedding):
            return x + self.kind(kinds.clamp(min=0)) * (kinds >= 0)[..., None]
        for i, each in enumerate(self.kind[:2]):
            x = torch.where((kinds == i)[..., None], x + each.weight, x)
        return x


class GivenMask(nn.Module):
    """A mask from before as vectors of the picture's places."""

    def __init__(self, spec: MaskDecoder, width: int) -> None:
        super().__init__()
        self.act, quarter = ACTIVATIONS[spec.mask_activation], spec.d_mask // 4
        self.conv1, self.conv2 = nn.Conv2d(1, quarter, 2, 2), nn.Conv2d(quarter, spec.d_mask, 2, 2)
        self.conv3 = nn.Conv2d(spec.d_mask, width, 1)
        self.norm1, self.norm2 = NormLayer(spec.mask_norm, (quarter,)), NormLayer(spec.mask_norm, (spec.d_mask,))

    def forward(self, mask: Tensor) -> Tensor:
        """[batch, 1, 4 * rows, 4 * columns] -> [batch, rows * columns, width]."""
        for conv, norm in ((self.conv1, self.norm1), (self.conv2, self.norm2)):
            mask = self.act(norm(conv(mask).permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
        return self.conv3(mask).flatten(2).transpose(1, 2)
