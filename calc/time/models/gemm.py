"""Time of a matrix product: tiles handed out to cores, bytes over bandwidth, a launch, and a learned rest.

A library has kernels for many sizes of tiles and for splitting k among cores where tiles are few, and a heuristic that
picks one. Here every pair of a tile and a split is timed, and the faster ones weigh more: the heuristic is unknown, and
mostly right. A core's tile costs steps of 64 in k, each as long as its arithmetic or as bringing its operands from the
cache, and storing its part of the result. Waves over the cores need not be whole: `waves` says how far they are
(persistent kernels and tiles chosen to fit hide most of it). Physics after Osama et al. (Stream-K, arXiv 2301.03598)
and NVIDIA's Matrix Multiplication Background User's Guide (tile and wave quantization).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import ClassVar, NamedTuple, Self

from calc.time.models.learned import Learned, Terms, at_clock, cached_bytes, fit_learned, joined, part
from calc.time.models.limits import Limits
from calc.time.models.questions import ProductQuestion, Shape, columns
from calc.time.models.residual import Column

TILES = ((16, 64), (16, 128), (64, 64), (64, 128), (128, 128), (128, 256), (256, 128))
"""Rows of m (activations, of which there may be few) and columns of n that a tile has."""

SPLITS = (1, 4, 16)
"""Of k, among cores."""

STEP = 64
"""Of k, that is brought to a core at once."""

FILLED = ((128, 128), (256, 128), (64, 64), (128, 256))
"""Tiles (rows, columns) whose last wave a residual may look at."""

CHUNK = 512
"""Rows that are timed at once, so that a table of rows and candidates stays in a core's cache."""


class _Timed(NamedTuple):
    """Seconds of n products and what they rest on, averaged over tiles and splits by how likely each is chosen."""

    seconds: Column
    compute: Column
    merge: Column
    units: Column
    rows: Column
    columns: Column
    splits: Column


class GemmModel(Learned, ProductQuestion):
    """Fitted constants of one device's matrix products in one number format.

    `limits.cores` may be None (a CPU): all cores are then one, and tiles are blocks of its cache.
    """

    typical: ClassVar[dict[str, float]] = {
        "launch": 0.0,  # log microseconds of any launch
        "fill": 0.4,  # log microseconds before the first tile is under way
        "latency": 0.4,  # log microseconds before the first bytes arrive
        "peak": -0.15,  # log part of the peak that a core reaches
        "read": -0.14,  # log part of the bandwidth at which operands are read
        "write": -0.25,  # log part of the bandwidth at which results are written
        "cache": -0.4,  # log time of a byte out of the shared cache over one out of memory
        "cache_size": -0.7,  # log part of that cache that holds operands from one call to the next
        "operands": 4.9,  # log GB/s at which one core brings operands in, out of the shared cache
        "results": 3.5,  # log GB/s at which one core stores a tile
        "merge": 2.9,  # log GB/s at which one core adds up what splits of k leave
        "split": 0.8,  # log microseconds of adding up, whatever the size
        "sharp": -1.6,  # log of the part by which compute and memory add up where they are equal
        "waves": -2.2,  # logit: 1 where the last wave takes as long as a full one
    }

    cycles: ClassVar[tuple[str, ...]] = ("launch", "fill", "latency", "split")

    @classmethod
    def fit(cls, shape: Shape, seconds: Column, limits: Limits, kernel_source: str = "", seed: int = 0) -> GemmModel:
        """The model of `seconds` measured at `shape`, columns m, n, k and, where products were batched, batch."""
        shape, _ = columns(**{"batch": 1, **shape})
        return fit_learned(cls.prior(limits, kernel_source), shape, seconds, seed)

    def moved(self, origin: Limits, target: Limits, clock: float = 1.0, alike: bool = True, cycle: float = 1.0) -> Self:
        """This model on a device of other limits: makers size what feeds a core by what it computes, so that rates of
        one core move with its peak; where both have the same cores, one of which was cut, they stay."""
        import math

        there = super().moved(origin, target, clock, alike, cycle)
        own = {"peak": at_clock(self.constants["peak"], clock)}
        if origin.cores and target.cores:
            faster = 0.0 if alike else math.log(target.peak / target.cores * origin.cores / origin.peak)
            fed = faster + math.log(clock)
            own |= {name: self.constants[name] + fed for name in ("operands", "results", "merge")}
        return there.model_copy(update={"constants": there.constants | own})

    def candidates(self) -> Iterable[Self]:
        """This model alone: tiles are chosen for each product."""
        return (self,)

    def physics(self, shape: Shape) -> Terms:
        """What physics alone says of the products in `shape`."""
        import numpy as np

        c, cores = self.constants, self.limits.cores or 1
        m, n, k, batch = (shape[name] for name in ("m", "n", "k", "batch"))
        read = batch * (m * k * self.limits.itemsize + n * k * self.limits.weight_size)
        written = batch * m * n * self.limits.result_size
        per_byte = cached_bytes(self.limits, read + written, c["cache"], c["cache_size"])
        memory = (read / np.exp(c["read"]) + written / np.exp(c["write"])) * per_byte + np.exp(c["latency"]) * 1e-6
        chunks = range(0, len(m), CHUNK)
        cut = [[x[i : i + CHUNK, None] for x in (m, n, k, batch, memory)] for i in chunks]
        timed = _Timed(*(np.concatenate(column) for column in zip(*map(self._timed, cut), strict=True)))
        launch = np.full_like(m, np.exp(c["launch"]) * 1e-6)
        seconds = launch + timed.seconds
        streamed = np.maximum(read + written - (self.limits.l2 or np.inf), 0.0)
        least = np.maximum(2 * batch * m * n * k / self.limits.peak, streamed / self.limits.bandwidth)
        features = _features(shape, timed, cores) | {
            "bound": np.log(timed.compute / memory),
            "launched": np.log(seconds / launch),
            "cached": np.log((read + written) / (self.limits.l2 or 1.0)),
        }
        return Terms(seconds, timed.compute, memory, launch, least, features)

    def _timed(self, cut: list[Column]) -> _Timed:
        """Products [n, 1] against all pairs of tiles and splits, in fp32, whose error is far below the fit's."""
        import numpy as np

        c, cores = {name: float(np.exp(value)) for name, value in self.constants.items()}, self.limits.cores or 1
        m, n, k, batch, memory = (x.astype(np.float32) for x in cut)
        rows, cols, splits = _choices(self.limits.cores is not None)
        units = batch * np.ceil(m / rows) * np.ceil(n / cols) * splits
        steps = np.ceil(k / (STEP * splits))
        arithmetic = 2 * rows * cols * STEP * cores / (c["peak"] * self.limits.peak)
        brought = rows * self.limits.itemsize + cols * self.limits.weight_size
        operands = brought * STEP / (c["operands"] * 1e9)
        tile = steps * np.maximum(arithmetic, operands) + rows * cols * self.limits.result_size / (c["results"] * 1e9)
        waves, whole = units / cores, part(self.constants["waves"])
        compute = tile * (whole * np.ceil(waves) + (1 - whole) * np.maximum(waves, 1)) + c["fill"] * 1e-6
        merge = batch * m * n * splits * (4 / (c["merge"] * 1e9 * cores)) + c["split"] * 1e-6
        merge *= splits > 1
        seconds = joined(compute, memory, c["sharp"]) + merge
        liked = seconds.min(axis=1, keepdims=True) / seconds
        for _ in range(3):  # to the eighth power: one a tenth slower is half as likely
            liked *= liked
        liked /= liked.sum(axis=1, keepdims=True)
        averaged = (np.einsum("ij,ij->i", liked, x).astype(float) for x in (seconds, compute, merge, units))
        return _Timed(*averaged, *(liked @ np.log2(np.stack([rows, cols, splits], axis=1))).T.astype(float))


@cache
def _choices(cores: bool) -> tuple[Column, Column, Column]:
    """Rows, columns and splits of all candidates; k is split where there are cores to give the parts to."""
    import numpy as np

    found = [(*tile, splits) for tile in TILES for splits in (SPLITS if cores else SPLITS[:1])]
    rows, cols, splits = np.array(found, dtype=np.float32).T
    return rows, cols, splits


def _features(shape: Shape, timed: _Timed, cores: int) -> dict[str, Column]:
    """Counts and ratios, no seconds: they mean the same on a device that is faster or larger."""
    import numpy as np

    m, n, k, batch = (np.log2(shape[name]) for name in ("m", "n", "k", "batch"))
    found = {
        "m": m,
        "n": n,
        "k": k,
        "batch": batch,
        "mn": m + n + batch,
        "nk": n + k + batch,
        "mk": m + k + batch,
        "tall": n - m,
        "odd": shape["m"] % 8,
        "padded": np.ceil(shape["m"] / 64) * 64 / shape["m"],
        "units": np.log2(timed.units / cores),
        "merged": timed.merge / timed.seconds,
        "rows": timed.rows,
        "columns": timed.columns,
        "splits": timed.splits,
    }
    for rows, cols in FILLED:
        waves = shape["batch"] * np.ceil(shape["m"] / rows) * np.ceil(shape["n"] / cols) / cores
        found[f"filled_{rows}x{cols}"] = waves / np.ceil(waves)
    return found
