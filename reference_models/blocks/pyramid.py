"""Maps of one width of what every stage of a picture's patches gives: the twin of `calc.blocks.pyramid`."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Neck, Pyramid
from reference_models.blocks.linear import NormLayer
from reference_models.support import supported


class Maps(nn.Module):
    """A matrix for each stage, and from the last stage on what is added to the one before it."""

    def __init__(self, spec: Pyramid, widths: Sequence[int]) -> None:
        super().__init__()
        supported(spec, "d_out", "top_down")
        self.spec = spec
        for i, width in enumerate(widths):
            self.add_module(f"lateral{i}", nn.Conv2d(width, spec.d_out, 1))

    def forward(self, ends: Sequence[tuple[Tensor, tuple[int, int]]]) -> dict[str, Tensor]:
        """ends: vectors [batch, rows * columns, width] behind each stage, with rows and columns -> map [batch, rows *
        columns, d_out] of each, by name."""
        found: dict[str, Tensor] = {}
        above: Tensor | None = None
        for i, (x, grid) in reversed(list(enumerate(ends))):
            made = self.get_submodule(f"lateral{i}")(x.unflatten(1, grid).permute(0, 3, 1, 2))
            if above is not None and i in self.spec.top_down:
                made = made + F.interpolate(above, scale_factor=2.0, mode="nearest")
            above = made
            found[f"map{i}"] = made.permute(0, 2, 3, 1).flatten(1, 2)
        return found


class OneMap(nn.Module):
    """Two convolutions of what the last layer gives, each with a norm behind it."""

    def __init__(self, spec: Neck, width: int) -> None:
        super().__init__()
        supported(spec, "d_out", "norm")
        self.conv1 = nn.Conv2d(width, spec.d_out, 1, bias=False)
        self.conv2 = nn.Conv2d(spec.d_out, spec.d_out, 3, padding=1, bias=False)
        self.norm1, self.norm2 = (NormLayer(spec.norm, (spec.d_out,)) for _ in range(2))

    def forward(self, x: Tensor, grid: tuple[int, int]) -> Tensor:
        """x [batch, rows * columns, width] -> [batch, rows * columns, d_out]."""
        x = self.norm1(self.conv1(x.unflatten(1, grid).permute(0, 3, 1, 2)).permute(0, 2, 3, 1))
        return self.norm2(self.conv2(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)).flatten(1, 2)
