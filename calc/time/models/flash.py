"""Time of attention over a prompt (and of its backward): tiles of queries in waves over the cores.

A fused kernel (FlashAttention, arXiv 2205.14135, 2307.08691, 2407.08608) gives each core one tile of queries of one
head at a time, which meets the keys that it may see block by block; blocks that masks hide whole are skipped. So time
is overhead per tile, work per pair of tiles, the unevenness of handing tiles out, bytes over bandwidth and a launch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self

from pydantic import PositiveInt

from calc.spec.pairs import twice_seen_last
from calc.time.models.learned import Learned, Terms, at_clock, cached_bytes, fit_learned, part
from calc.time.models.limits import Limits, Positive
from calc.time.models.questions import PromptQuestion, Shape
from calc.time.models.residual import Column
from calc.trace.functions import ATTENTION_BACK

BACKWARD_EFFICIENCY = 0.8
"""FLOP/s of the backward over those of the forward: FlashAttention-3 on an H100, head dimension 128, 8k to 16k tokens,
measured 561 against 648 TFLOP/s full and 539 against 685 causal (arXiv 2407.08608, figures 5 and 6; its repository)."""

BACKWARD_TRAFFIC = 2.5
"""Reads queries, keys, values, outputs and their gradient, and writes three gradients, queries' in fp32."""

TILES = ((64, 64), (64, 128), (128, 128), (192, 128))
CPU_TILES = ((16, 16), (32, 128), (128, 128))
CPU_SOFTMAX = 5.0
"""Log picoseconds for each score, where fitting begins on a CPU."""


class AttentionModel(Learned, PromptQuestion):
    """Fitted constants of one attention kernel.

    tile_rows, tile_keys: queries and keys of a tile. packed: queries of the heads that share keys fill tiles together.
    flops: times the forward's, of the work on a pair of tiles. traffic: times the forward's, of the bytes.
    backward_efficiency: FLOP/s of the backward over this kernel's, for `backward`.
    """

    typical: ClassVar[dict[str, float]] = {
        "launch": 2.3,  # log microseconds
        "tile": 0.6,  # log microseconds for each tile
        "tile_d": 0.1,  # its slope in log2(d / 128)
        "rate": 0.8,  # logit of the part of the peak that a core reaches
        "rate_d": 0.5,  # its slope, and curve, in log2(d / 128)
        "rate_dd": -0.2,
        "softmax": 0.0,  # log picoseconds for each score on one core
        "waves": -1.0,  # logit: 1 where the last wave takes as long as a full one
        "uneven": -1.0,  # logit: part of a longest tile that cores wait at the end
        "split": -2.0,  # logit: how much tiles that are fewer than cores gain from sharing their keys out
        "edge": 0.9,  # blocks of keys that a window touches without need, at its far end
        "bandwidth": 2.0,  # logit of the part of the bandwidth that is reached
        "cache": -0.3,  # log time of a byte out of the cache over one out of memory
        "cache_size": -0.5,  # log part of the cache that holds operands
        "sharp": -0.5,  # log of the power above 1 by which compute and memory add up
        "queries": -2.0,  # log: passes over queries and outputs by other kernels of the same call
        "keys": 0.0,  # log: such passes over keys and values (writing the cache)
    }

    cycles: ClassVar[tuple[str, ...]] = ("launch", "tile")
    tile_rows: PositiveInt = 128
    tile_keys: PositiveInt = 128
    packed: bool = True
    flops: Positive = 1.0
    traffic: Positive = 1.0
    backward_efficiency: Positive = BACKWARD_EFFICIENCY

    @classmethod
    def fit(
        cls,
        shape: Shape,
        seconds: Column,
        limits: Limits,
        kernel_source: str = "",
        seed: int = 0,
        backward: bool = False,
    ) -> AttentionModel:
        """The model of `seconds` measured at `shape` (columns by the names of the arguments of `seconds`)."""
        start = cls.prior(limits, kernel_source)
        return fit_learned(start.backward() if backward else start, shape, seconds, seed)

    def backward(self) -> AttentionModel:
        """The model of the backward where none was measured: 2.5 times the FLOPs at `backward_efficiency`."""
        import math

        slower = ATTENTION_BACK / self.backward_efficiency
        constants = self.constants | {"tile": self.constants["tile"] + math.log(slower)}
        return self.model_copy(
            update={"flops": slower, "traffic": BACKWARD_TRAFFIC, "constants": constants, "spread": None, "points": 0}
        )

    def moved(self, origin: Limits, target: Limits, clock: float = 1.0, alike: bool = True, cycle: float = 1.0) -> Self:
        """This model on a device of other limits, whose cores reach more of their peak where their clock is faster."""
        import math

        there, now = super().moved(origin, target, clock, alike, cycle), float(part(self.constants["rate"]))
        reached = math.exp(at_clock(math.log(now), clock))
        if reached == now:
            return there
        own = {"rate": math.log(reached / (1 - reached))}
        return there.model_copy(update={"constants": there.constants | own})

    def candidates(self) -> Iterable[Self]:
        """Sizes of tiles, packed or not; on a device without cores that tiles are handed to, one of them."""
        # One core that is the whole of a CPU: small tiles, and exponentials that vector units are slower at.
        sizes = TILES if self.limits.cores else CPU_TILES
        constants = self.constants | ({} if self.limits.cores else {"softmax": CPU_SOFTMAX})
        for tile_rows, tile_keys in sizes:
            for packed in (True, False):
                found = {"tile_rows": tile_rows, "tile_keys": tile_keys, "packed": packed}
                yield self.model_copy(update=found | {"constants": constants})

    def physics(self, shape: Shape) -> Terms:
        """What physics alone says of the launches in `shape`."""
        import numpy as np

        c, cores = self.constants, self.limits.cores or 1
        tiles, pairs, longest = self._tiles(shape)
        wide = self.wide(shape)
        d = shape["d_head"] + shape["d_value"]
        rate = self.limits.peak / cores * part(c["rate"] + c["rate_d"] * wide + c["rate_dd"] * wide**2)
        pair = self.tile_rows * self.tile_keys * (2 * d * self.flops / rate + np.exp(c["softmax"]) * 1e-12)
        tile = np.exp(c["tile"] + c["tile_d"] * wide) * 1e-6
        slowest = tile + longest * pair
        waves = tiles / cores
        filled = 1 + part(c["waves"]) * (np.ceil(waves) / waves - 1)
        shared = (tiles * tile + pairs * pair) / cores * filled
        shared = shared + part(c["uneven"]) * slowest * np.maximum(0, 1 - 1 / waves)
        splits = np.clip(1 / waves, 1, longest) ** part(c["split"])
        compute = np.where(waves > 1, np.maximum(shared, slowest), tile + longest * pair / splits)
        per_byte, of_queries, of_keys = self._bytes(shape)
        memory = self.traffic * (of_queries + of_keys) * per_byte / part(c["bandwidth"])
        power = 1 + np.exp(c["sharp"])
        others = np.exp(c["queries"]) * of_queries + np.exp(c["keys"]) * of_keys * shape["seq"] / shape["keys"]
        launch = np.full_like(waves, np.exp(c["launch"]) * 1e-6)
        seconds = launch + (compute**power + memory**power) ** (1 / power) + others * per_byte * self.traffic
        features = self._features(shape, waves, longest, pairs / tiles)
        features |= {"bound": np.log(compute / memory), "launched": np.log(seconds / launch)}
        return Terms(seconds, compute, memory, launch, self._least(shape, of_queries + of_keys), features)

    def _tiles(self, shape: Shape) -> tuple[Column, Column, Column]:
        """Tiles of queries, pairs of tiles in all, and blocks of keys of the longest tile.

        Rows of tile i see keys up to their last row's, and with a window from their first row's window on: with m
        queries a tile, min(before + i m, window + m - 1) keys in all, and half a block more at each ragged end.
        """
        import numpy as np

        group = shape["heads"] / shape["kv_heads"] if self.packed else 1.0
        rows = shape["seq"] * group
        count = np.ceil(rows / self.tile_rows)
        queries = np.minimum(self.tile_rows, rows) / group
        windowed = (shape["window"] > 0) & (shape["window"] < shape["keys"])
        most = np.where(windowed, np.minimum(shape["window"] + queries - 1, shape["keys"]), shape["keys"])
        before = np.where(shape["causal"] > 0, shape["keys"] - shape["seq"], most)
        growing = np.clip(np.floor((most - before) / queries), 0, count)
        seen = growing * before + queries * growing * (growing + 1) / 2 + (count - growing) * most
        edge = 0.5 + windowed * np.clip(self.constants["edge"], 0, 3)
        of_each = shape["batch"] * shape["heads"] / group
        return of_each * count, of_each * (seen / self.tile_keys + edge * count), most / self.tile_keys + edge

    def _bytes(self, shape: Shape) -> tuple[Column, Column, Column]:
        """Seconds a byte (out of the cache, where all of it fits), bytes of queries and outputs, of keys and values."""
        width = shape["batch"] * (shape["d_head"] + shape["d_value"])
        of_queries = width * self.limits.itemsize * shape["seq"] * shape["heads"]
        of_keys = width * self.limits.weight_size * shape["keys"] * shape["kv_heads"]
        c = self.constants
        return cached_bytes(self.limits, of_queries + of_keys, c["cache"], c["cache_size"]), of_queries, of_keys

    def _features(self, shape: Shape, waves: Column, longest: Column, blocks: Column) -> dict[str, Column]:
        """Counts and ratios, no seconds: they mean the same on a device that is faster or larger."""
        import numpy as np

        windowed = (shape["window"] > 0) & (shape["window"] < shape["keys"])
        size = shape["batch"] * shape["kv_heads"] * shape["keys"] * (shape["d_head"] + shape["d_value"])
        return {
            "waves": np.log2(waves),
            "fill": waves / np.ceil(waves),
            "longest": np.log2(longest),
            "blocks": np.log2(blocks),
            "seq": np.log2(shape["seq"]),
            "width": np.log2(shape["d_head"]),
            "group": np.log2(shape["heads"] / shape["kv_heads"]),
            "kv_heads": np.log2(shape["kv_heads"]),
            "batch": np.log2(shape["batch"]),
            "window": np.where(windowed, np.log2(shape["keys"] / np.maximum(shape["window"], 1)), -1.0),
            "cached": np.log2(size * self.limits.itemsize / (self.limits.l2 or 1.0)),
        }

    def _least(self, shape: Shape, size: Column) -> Column:
        """No kernel beats the peak on scores that no mask hides, nor the bandwidth on what no known cache holds."""
        import numpy as np

        window = np.where(shape["window"] > 0, np.minimum(shape["window"], shape["keys"]), shape["keys"])
        masked = twice_seen_last(shape["seq"], shape["keys"], window) / 2
        scores = np.where(shape["causal"] > 0, masked, shape["seq"] * window)
        products = 2 * scores * shape["batch"] * shape["heads"] * (shape["d_head"] + shape["d_value"])
        streamed = np.maximum(0, size - (self.limits.l2 or np.inf))
        return np.maximum(products / self.limits.peak, streamed / self.limits.bandwidth)
