"""FlashAttention in readable PyTorch, with a meter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calc.attention.shape import AttentionShape
from harness.kernels.base import Backend

if TYPE_CHECKING:
    from torch import Tensor

    from harness.kernels.tiling import Tiling


class Tiled(Backend):
    """Blocks of queries against blocks of keys, softmax online, the weights computed again backward."""

    name = "tiled"
    title = "FlashAttention in readable PyTorch, metered"
    dtypes = Backend.dtypes | {"fp64"}

    def forward(self, q: Tensor, k: Tensor, v: Tensor, shape: AttentionShape, tiling: Tiling | None = None) -> Tensor:
        """tiling: sizes of tiles, order of loops, and the meter that counts; None: tiles of 64 x 64."""
        from harness.kernels import tiling as tiles

        return tiles.TiledAttention.apply(q, k, v, shape, tiling or tiles.Tiling())
