"""Maps of one width of what every stage of a picture's patches gives: the twin of `calc.blocks.pyramid`."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Pyramid
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
