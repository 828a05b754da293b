"""Time of attention for one new token of each sequence: the cache of keys and values is read once.

Each tile is the query heads that share a key head of one sequence. Where there are fewer tiles than cores, kernels
split the keys of a tile over several and combine the parts (flash-decoding). Small caches stay in the last level of
on-chip cache from one launch to the next when a benchmark repeats them, and are read faster than from memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self

from pydantic import PositiveInt

from calc.time.models.learned import Learned, Terms, cached_bytes, fit_learned, part
from calc.time.models.limits import Limits
from calc.time.models.questions import Shape, TokenQuestion
from calc.time.models.residual import Column

STRUCTURES = ((64, 64), (64, 256), (16, 128))
"""Query heads and keys of a tile."""

PRODUCTS_RATE = 0.667
"""Part of the peak that kernels reach where products bound them: 660 TFLOP/s of latent attention on an H800, by
FlashMLA's README (2025-04). Of other attention no kernel is expected beyond it, whose products fill tensor cores less
(0.39 at most in the tables of seven GPUs); that binds where cores have few tensor units, as an H20's."""

FETCHED = 0.7
"""Power of the bandwidth by which a core's time for a block of keys falls. Chosen on four times of an H200 beside those
of an H100, caches of 8 key heads, large and small (aiconfigurator 0.12): with 0 all are 7 % too slow, with 0.7 3 %."""


class DecodeModel(Learned, TokenQuestion):
    """Fitted constants of one kernel of decode attention.

    tile_heads, tile_keys: query heads and keys that a core takes at a time; of larger groups a core takes more tiles.
    packed: whether query heads that share a key head share tiles where there is a window too (FlashAttention-2's do
    not).
    """

    typical: ClassVar[dict[str, float]] = {
        "launch": 2.1,  # log microseconds
        "tile": 0.8,  # log microseconds for each tile
        "tile_d": 0.1,  # its slope in log2(d / 128)
        "block": 0.3,  # log microseconds that a core needs for a block of keys
        "block_d": 0.6,  # its slope in log2(d / 128)
        "waves": 0.0,  # logit: 1 where the last wave takes as long as a full one
        "part": 0.7,  # log of the blocks that the smallest part of a split tile has
        "aim": 0.0,  # log of the waves up to which tiles are split
        "whole": -1.0,  # logit: 1 where tiles are split as if there were no window
        "combine": 0.0,  # log microseconds for combining parts
        "bandwidth": 2.5,  # logit of the part of the bandwidth that is reached
        "cache": -0.4,  # log time of a byte out of the cache over one out of memory
        "cache_size": -0.4,  # log part of the cache that holds operands
        "cache_edge": 1.4,  # log steepness of its end
        "sharp": 0.0,  # log of the power above 1 by which compute and memory add up
        "queries": -2.0,  # log: passes over queries and outputs by other kernels of the same call
    }

    cycles: ClassVar[tuple[str, ...]] = ("launch", "tile", "combine")
    tile_heads: PositiveInt = 64
    tile_keys: PositiveInt = 128
    packed: bool = True

    @classmethod
    def fit(cls, shape: Shape, seconds: Column, limits: Limits, kernel_source: str = "", seed: int = 0) -> DecodeModel:
        """The model of `seconds` measured at `shape` (columns by the names of the arguments of `seconds`)."""
        return fit_learned(cls.prior(limits, kernel_source), shape, seconds, seed)

    def moved(self, origin: Limits, target: Limits, clock: float = 1.0, alike: bool = True, cycle: float = 1.0) -> Self:
        """This model on a device of other limits; a block of keys, which is mostly waited for, takes less time where
        memory is faster, by `FETCHED`."""
        import math

        shorter = FETCHED * math.log(target.bandwidth / origin.bandwidth)
        own = {"block": self.constants["block"] - shorter}
        there = super().moved(origin, target, clock, alike, cycle)
        return there.model_copy(update={"constants": there.constants | own})

    def candidates(self) -> Iterable[Self]:
        """Each of `STRUCTURES`; on a device without cores that tiles are handed to, one of them."""
        if not self.limits.cores:
            yield from self._uncored()
            return
        for tile_heads, tile_keys in STRUCTURES:
            for packed in (True, False):
                yield self.model_copy(update={"tile_heads": tile_heads, "tile_keys": tile_keys, "packed": packed})

    def _uncored(self) -> Iterable[Self]:
        """Tiles of one head or of a group, on one core that is the whole device. Blocks begin with the time of their
        bytes, since a GPU's core says nothing of that."""
        import math

        for tile_heads, tile_keys in ((1, 16), (1, 128), (64, 128)):
            block = 2 * 128 * tile_keys * self.limits.itemsize / self.limits.bandwidth
            constants = self.typical | {"tile": 0.0, "block": math.log(1e6 * block)}
            yield self.model_copy(update={"tile_heads": tile_heads, "tile_keys": tile_keys, "constants": constants})

    def physics(self, shape: Shape) -> Terms:
        """What physics alone says of the launches in `shape`."""
        import numpy as np

        cores = self.limits.cores or 1
        c, group = self.constants, shape["heads"] / shape["kv_heads"]
        each = np.maximum(1, group / self.tile_heads)
        each = each if self.packed else np.where(shape["window"] > 0, group, each)
        tiles = shape["batch"] * shape["kv_heads"] * each
        seen = np.where(shape["window"] > 0, np.minimum(shape["context"], shape["window"]), shape["context"])
        blocks = np.ceil(seen / self.tile_keys) + 0.5 * (seen < shape["context"])
        wide = self.wide(shape)
        tile = np.exp(c["tile"] + c["tile_d"] * wide) * 1e-6
        block = np.exp(c["block"] + c["block_d"] * wide) * 1e-6
        products = 2 * self.tile_heads * self.tile_keys * (shape["d_head"] + shape["d_value"])
        block = np.where(shape["latent"] > 0, products / (PRODUCTS_RATE * self.limits.peak / cores), block)
        waves = tiles / cores
        divided = blocks * (shape["context"] / seen) ** part(c["whole"])
        splits = np.maximum(1, np.minimum(np.exp(c["aim"]) / waves, divided / np.exp(c["part"])))
        busy = np.maximum(waves * splits, 1)
        filled = np.where(waves > 1, 1 + part(c["waves"]) * (np.ceil(waves) / waves - 1), 1)
        compute = (
            busy * filled * tile
            + np.maximum(busy * blocks / splits, np.minimum(blocks, divided / splits)) * filled * block
        )
        per_byte, of_queries, of_keys = self._bytes(shape, seen)
        memory = (of_queries + of_keys) * per_byte / part(c["bandwidth"])
        power = 1 + np.exp(c["sharp"])
        others = np.exp(c["queries"]) * of_queries * per_byte
        launch = np.exp(c["launch"]) * 1e-6 + np.exp(c["combine"]) * 1e-6 * (1 - 1 / splits)
        seconds = launch + (compute**power + memory**power) ** (1 / power) + others
        size = of_queries + of_keys
        features = self._features(shape, seen, size) | {
            "waves": np.log2(waves),
            "fill": waves / np.ceil(waves),
            "blocks": np.log2(blocks),
            "splits": np.log2(splits),
            "bound": np.log(compute / memory),
            "launched": np.log(seconds / launch),
        }
        return Terms(seconds, compute, memory, launch, self._least(shape, seen, size), features)

    def _bytes(self, shape: Shape, seen: Column) -> tuple[Column, Column, Column]:
        """Seconds a byte (out of the cache, where all of it fits), bytes of queries and outputs, of keys and values."""
        import numpy as np

        c, both = self.constants, shape["d_head"] + shape["d_value"]
        width = np.where(shape["latent"] > 0, shape["d_head"], both)
        of_keys = shape["batch"] * seen * shape["kv_heads"] * width * self.limits.weight_size
        of_queries = shape["batch"] * shape["heads"] * both * self.limits.itemsize
        per_byte = cached_bytes(self.limits, of_queries + of_keys, c["cache"], c["cache_size"], c["cache_edge"])
        return per_byte, of_queries, of_keys

    def _features(self, shape: Shape, seen: Column, size: Column) -> dict[str, Column]:
        """Counts and ratios, no seconds: they mean the same on a device that is faster or larger."""
        import numpy as np

        return {
            "seen": np.log2(seen),
            "width": np.log2(shape["d_head"]),
            "group": np.log2(shape["heads"] / shape["kv_heads"]),
            "kv_heads": np.log2(shape["kv_heads"]),
            "batch": np.log2(shape["batch"]),
            "windowed": shape["window"] > 0,
            "rows": np.log2(shape["batch"] * shape["heads"] / (self.limits.cores or 1)),
            "window": np.where(seen < shape["context"], np.log2(shape["context"] / seen), -1.0),
            "cached": np.log2(size / (self.limits.l2 or 1.0)),
        }

    def _least(self, shape: Shape, seen: Column, size: Column) -> Column:
        """No kernel beats the peak on its products (without a latent, what is expected of them), nor memory's bandwidth
        on what no cache of known size holds."""
        import numpy as np

        products = 2 * shape["batch"] * shape["heads"] * seen * (shape["d_head"] + shape["d_value"])
        streamed = np.maximum(0, size - (self.limits.l2 or np.inf))
        reached = np.where((shape["latent"] > 0) | (self.limits.cores is None), 1.0, PRODUCTS_RATE)
        return np.maximum(products / (reached * self.limits.peak), streamed / self.limits.bandwidth)
