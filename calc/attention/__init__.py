"""What attention kernels cost: FLOPs as executed, bytes through main memory, and memory, by shape and by tiles."""

from __future__ import annotations

from calc.attention.cost import Cost
from calc.attention.flash import best_blocks, flash, on_chip, paper_blocks, sram, tiles_that_fit
from calc.attention.shape import AttentionShape
from calc.attention.standard import standard
from calc.attention.tiles import Blocks, Visits, visits

__all__ = [
    "AttentionShape",
    "Blocks",
    "Cost",
    "Visits",
    "best_blocks",
    "flash",
    "on_chip",
    "paper_blocks",
    "sram",
    "standard",
    "tiles_that_fit",
    "visits",
]
