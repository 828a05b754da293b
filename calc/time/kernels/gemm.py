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

from calc.time.device.limits import Limits
from calc.time.kernels.learned import Learned, Terms, fit_learned, part
from calc.time.kernels.questions import AskedForProducts, Shape, columns
from calc.time.kernels.residual import Column

TILE_ROWS = (16, 32, 64, 128, 256)
"""Rows of m that a tile has; activations, of which there may be few."""

TILE_COLUMNS = (64, 128, 256)
SPLITS = (1, 2, 4, 8, 16)
LARGEST_TILE = 128 * 256
STEP = 64
"""Of k, that is brought to a core at once."""

FILLED = ((128, 128), (256, 128), (64, 64), (128, 256), (256, 64))
"""Tiles (rows, columns) whose last wave a residual may look at."""

CHUNK = 4096
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


class GemmModel(Learned, AskedForProducts):
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
        "operands": 4.9,  # log GB/s at which one core brings operands in, out of the shared cache
        "results": 3.5,  # log GB/s at which one core stores a tile
        "merge": 2.9,  # log GB/s at which one core adds up what splits of k leave
        "split": 0.8,  # log microseconds of adding up, whatever the size
        "sharp": 1.9,  # log of the power above 1 by which compute and memory add up
        "choice": 2.3,  # log of how strongly faster tiles are preferred
        "waves": -2.2,  # logit: 1 where the last wave takes as long as a full one
    }

    @classmethod
    def prior(cls, limits: Limits, kernel_source: str = "") -> GemmModel:
        """The model of a device that nothing was measured on: constants typical of cuBLAS on an H100."""
        return cls(limits=limits, kernel_source=kernel_source, constants=dict(cls.typical))

    @classmethod
    def fit(cls, shape: Shape, seconds: Column, limits: Limits, kernel_source: str = "", seed: int = 0) -> GemmModel:
        """The model of `seconds` measured at `shape`, columns m, n, k and, where products were batched, batch."""
        shape, _ = columns(**{"batch": 1, **shape})
        return fit_learned(cls.prior(limits, kernel_source), shape, seconds, seed)

    def candidates(self) -> Iterable[Self]:
        """This model alone: tiles are chosen for each product."""
        return (self,)

    def physics(self, shape: Shape) -> Terms:
        """What physics alone says of the products in `shape`."""
        import numpy as np

        c, cores = self.constants, self.limits.cores or 1
        m, n, k, batch = (shape[name] for name in ("m", "n", "k", "batch"))
        size = self.limits.itemsize * batch
        read, written = size * (m * k + n * k), size * m * n
        speed = self.limits.bandwidth
        memory = (read / np.exp(c["read"]) + written / np.exp(c["write"])) / speed + np.exp(c["latency"]) * 1e-6
        chunks = range(0, len(m), CHUNK)
        cut = [[x[i : i + CHUNK, None] for x in (m, n, k, batch, memory)] for i in chunks]
        timed = _Timed(*(np.concatenate(column) for column in zip(*map(self._timed, cut), strict=True)))
        launch = np.full_like(m, np.exp(c["launch"]) * 1e-6)
        seconds = launch + timed.seconds
        least = np.maximum(2 * batch * m * n * k / self.limits.peak, (read + written) / speed * bool(self.limits.cores))
        features = _features(shape, timed, cores) | {
            "bound": np.log(timed.compute / memory),
            "launched": np.log(seconds / launch),
            "cached": np.log((read + written) / (self.limits.l2 or 1.0)),
        }
        return Terms(seconds, timed.compute, memory, launch, least, features)

    def _timed(self, cut: list[Column]) -> _Timed:
        """Products [n, 1] against all pairs of tiles and splits."""
        import numpy as np

        c, cores = {name: float(np.exp(value)) for name, value in self.constants.items()}, self.limits.cores or 1
        m, n, k, batch, memory = cut
        rows, cols, splits = _choices(self.limits.cores is not None)
        units = batch * np.ceil(m / rows) * np.ceil(n / cols) * splits
        steps = np.ceil(k / (STEP * splits))
        arithmetic = 2 * rows * cols * STEP * cores / (c["peak"] * self.limits.peak)
        operands = (rows + cols) * STEP * self.limits.itemsize / (c["operands"] * 1e9)
        tile = steps * np.maximum(arithmetic, operands) + rows * cols * self.limits.itemsize / (c["results"] * 1e9)
        waves, whole = units / cores, part(self.constants["waves"])
        compute = tile * (whole * np.ceil(waves) + (1 - whole) * np.maximum(waves, 1)) + c["fill"] * 1e-6
        sums = batch * m * n * splits * (4 / (c["merge"] * 1e9 * cores)) + c["split"] * 1e-6
        merge = np.where(splits > 1, sums, 0.0)
        power = 1 + c["sharp"]
        longer = np.maximum(compute, memory)
        seconds = longer * (1 + (np.minimum(compute, memory) / longer) ** power) ** (1 / power) + merge
        liked = (seconds / seconds.min(axis=1, keepdims=True)) ** -c["choice"]
        liked /= liked.sum(axis=1, keepdims=True)
        averaged = (seconds, compute, merge, units, np.log2(rows), np.log2(cols), np.log2(splits))
        return _Timed(*((liked * x).sum(axis=1) for x in averaged))


@cache
def _choices(cores: bool) -> tuple[Column, Column, Column]:
    """Rows, columns and splits of all candidates; k is split where there are cores to give the parts to."""
    import numpy as np

    found = [
        (rows, cols, splits)
        for rows in TILE_ROWS
        for cols in TILE_COLUMNS
        for splits in (SPLITS if cores else SPLITS[:1])
        if rows * cols <= LARGEST_TILE
    ]
    rows, cols, splits = np.array(found, dtype=float).T
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
        "odd": shape["m"] % 2,
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
