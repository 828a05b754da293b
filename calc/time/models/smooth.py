"""Times on a device whose inner workings are not modelled, as a CPU's: arithmetic, bytes, a start, and a smooth rest.

Seconds are flops * per_flop + bytes * per_byte + start, times the exponential of what is left over, which is taken to
change smoothly with the logarithms of all sizes: a Gaussian process (kriging; Rasmussen & Williams, Gaussian Processes
for Machine Learning, 2006, algorithm 2.1; held-out residuals by their equation 5.12). Far from all points the rest
fades, and the physics stays. A few dozen points are enough, which is what trees, or constants of tiles, are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Self

from pydantic import AfterValidator, NonNegativeFloat, model_validator

from calc.errors import Refused
from calc.spec.fields import Node
from calc.spec.pairs import twice_seen_last
from calc.time.models.learned import PRIOR_SPREAD
from calc.time.models.limits import Positive
from calc.time.models.questions import ProductQuestion, PromptQuestion, Shape, TokenQuestion
from calc.time.models.residual import Column, Spread

LEAST_SECONDS = 1e-20
"""Seconds below which no device does one operation or moves one byte."""


def _possible(seconds: float) -> float:
    if 0 < seconds < LEAST_SECONDS:
        raise ValueError(f"0 or at least {LEAST_SECONDS:g} seconds")
    return seconds


PerUnit = Annotated[NonNegativeFloat, AfterValidator(_possible)]

Tables = Mapping[str, tuple[Shape, Column]]
"""Columns of sizes, and seconds, by name."""


class Work(NamedTuple):
    """What n launches have to do: FLOPs, bytes, and the places [n, sizes] at which the rest is told."""

    flops: Column
    bytes: Column
    places: Any


class Smooth(Node):
    """Fitted constants of one kind of kernel.

    itemsize: bytes of an element. points: the places that were measured, logarithms of sizes; weights: what each adds
    to the rest near it; lengths: how far, along each size. spread: of points left out of the fit.
    """

    itemsize: Positive
    kernel_source: str = ""
    per_flop: PerUnit
    per_byte: PerUnit
    start: NonNegativeFloat
    lengths: tuple[Positive, ...] = ()
    points: tuple[tuple[float, ...], ...] = ()
    weights: tuple[float, ...] = ()
    spread: Spread | None = None

    @model_validator(mode="after")
    def _whole(self) -> Smooth:
        if len(self.weights) != len(self.points) or {len(place) for place in self.points} - {len(self.lengths)}:
            raise Refused("points", "a weight for each, and as many sizes as lengths", f"{len(self.points)} points")
        return self

    @staticmethod
    def work(shape: Shape, itemsize: float) -> Work:
        """What the launches in `shape` have to do."""
        raise NotImplementedError

    def predicted(self, shape: Shape) -> Column:
        """Seconds of the launches in `shape`."""
        import numpy as np

        work = self.work(shape, self.itemsize)
        seconds = work.flops * self.per_flop + work.bytes * self.per_byte + self.start
        if not self.points:
            return seconds
        near = _nearness(work.places, np.array(self.points), np.array(self.lengths))
        return seconds * np.exp(near @ np.array(self.weights))

    def interval(self, level: float) -> tuple[float, float]:
        """Factors (low, high) on a predicted time between which `level` of measured times lie."""
        return (self.spread or PRIOR_SPREAD).interval(level)

    @classmethod
    def fit(
        cls, tables: Mapping[str, tuple[Shape, Column]], itemsize: float, kernel_source: str = ""
    ) -> dict[str, Self]:
        """A model of each table (columns of sizes, and seconds) by its name, fitted together: tables are ways of doing
        the same work (layouts), and what is seen of one is half a hint at the others."""
        import numpy as np

        from calc.time.models.boosting import spread

        works = [cls.work(shape, itemsize) for shape, _ in tables.values()]
        flops, nbytes, places = (np.concatenate(column) for column in zip(*works, strict=True))
        seconds = np.concatenate([each for _, each in tables.values()])
        table = np.repeat(np.arange(len(tables)), [len(each) for _, each in tables.values()])
        constants = _constants(flops, nbytes, seconds)
        rest = np.log(seconds / (np.stack([flops, nbytes, np.ones_like(flops)], axis=1) @ constants))
        lengths, alpha, left_out, alike = _krige(places, table, rest)
        found = {}
        for i, name in enumerate(tables):
            own = alpha * np.where(table == i, 1.0, alike)
            found[name] = cls(
                itemsize=itemsize,
                kernel_source=kernel_source,
                per_flop=max(constants[0], LEAST_SECONDS),
                per_byte=max(constants[1], LEAST_SECONDS),
                start=constants[2],
                lengths=_rounded(lengths),
                points=tuple(map(_rounded, places)),
                weights=_rounded(own),
                spread=spread(left_out[table == i]),
            )
        return found


class SmoothGemm(Smooth, ProductQuestion):
    """Matrix products; as `GemmModel`."""

    @staticmethod
    def work(shape: Shape, itemsize: float) -> Work:
        import numpy as np

        m, n, k, batch = (shape[name] for name in ("m", "n", "k", "batch"))
        places = np.log(np.stack([m, n, k, batch], axis=1))
        return Work(2 * m * n * k * batch, (m * k + k * n + m * n) * batch * itemsize, places)


class SmoothAttention(Smooth, PromptQuestion):
    """Attention over a prompt, forward or back; as `AttentionModel`."""

    @staticmethod
    def work(shape: Shape, itemsize: float) -> Work:
        import numpy as np

        batch, heads, seq, keys = (shape[name] for name in ("batch", "heads", "seq", "keys"))
        width = shape["d_head"] + shape["d_value"]
        window = np.where(shape["window"] > 0, np.minimum(shape["window"], keys), keys)
        last = np.minimum(seq, keys)
        seen = np.where(shape["causal"] > 0, twice_seen_last(last, keys, window) / 2 / last, window)
        nbytes = batch * (heads * seq + shape["kv_heads"] * keys) * width * itemsize
        places = np.stack([np.log(batch * heads), np.log(seq), np.log(seen), np.log(width), shape["causal"]], axis=1)
        return Work(2 * batch * heads * seq * seen * width, nbytes, places)


class SmoothDecode(Smooth, TokenQuestion):
    """Attention of one new token of each sequence; as `DecodeModel`."""

    @staticmethod
    def work(shape: Shape, itemsize: float) -> Work:
        import numpy as np

        batch, heads, kv_heads, context = (shape[name] for name in ("batch", "heads", "kv_heads", "context"))
        seen = np.where(shape["window"] > 0, np.minimum(context, shape["window"]), context)
        width = shape["d_head"] + shape["d_value"]
        read = shape["d_head"] + np.where(shape["latent"] > 0, 0.0, shape["d_value"])
        places = np.log(np.stack([batch * kv_heads, heads / kv_heads, seen, width], axis=1))
        return Work(2 * batch * heads * seen * width, batch * kv_heads * seen * read * itemsize, places)


def _constants(flops: Column, nbytes: Column, seconds: Column) -> Column:
    """Seconds for a FLOP, for a byte and to start, all above 0, that leave the smallest log-ratios."""
    import numpy as np
    from scipy.optimize import least_squares

    parts = np.stack([flops, nbytes, np.ones_like(flops)], axis=1)
    least = np.array([(seconds / column).min() for column in parts.T])

    def errors(values: Column) -> Column:
        return np.log(parts @ np.exp(values) / seconds)

    # Outliers beyond a fifth pull in proportion, not in square.
    return np.exp(least_squares(errors, np.log(least), loss="soft_l1", f_scale=0.2, max_nfev=200).x)


def _nearness(places: Any, points: Any, lengths: Column) -> Any:
    """[n, points]: 1 at a point, falling with the distance in units of `lengths`."""
    import numpy as np

    apart = (places[:, None] - points[None]) / lengths
    return np.exp(-0.5 * (apart**2).sum(axis=-1))


def _krige(places: Any, table: Any, rest: Column) -> tuple[Column, Column, Column, float]:
    """(lengths, weights, what is left of each point where it is not in the fit, how alike tables are) of the likeliest
    process; a weak prior keeps lengths that nothing tells of at a factor of 20 in size."""
    import numpy as np
    from scipy.linalg import cho_factor, cho_solve
    from scipy.optimize import minimize

    dims, usual = places.shape[1], np.append(np.full(places.shape[1], np.log(3.0)), [np.log(0.1), np.log(0.08), 0.0])

    def covariance(values: Column) -> Any:
        alike = 1 / (1 + np.exp(-values[-1]))
        shared = np.where(table[:, None] == table[None], 1.0, alike)
        near = _nearness(places, places, np.exp(values[:dims]))
        return np.exp(2 * values[dims]) * near * shared + np.eye(len(rest)) * np.exp(2 * values[dims + 1])

    def cost(values: Column) -> float:
        lower = np.linalg.cholesky(covariance(values))
        fitted = 0.5 * (np.linalg.solve(lower, rest) ** 2).sum() + np.log(np.diag(lower)).sum()
        return float(fitted + 0.5 * ((values - usual) ** 2).sum())

    bounds = [(-1.0, 4.0)] * dims + [(-5.0, 1.0), (-4.0, 0.0), (-4.0, 6.0)]
    values = minimize(cost, usual, method="L-BFGS-B", bounds=bounds, options={"maxiter": 40}).x
    factor = cho_factor(covariance(values))
    weights, inverse = cho_solve(factor, rest), cho_solve(factor, np.eye(len(rest)))
    strength = np.exp(2 * values[dims])
    return np.exp(values[:dims]), strength * weights, weights / np.diag(inverse), float(1 / (1 + np.exp(-values[-1])))


def _rounded(values: Sequence[float]) -> tuple[float, ...]:
    """Seven digits, which is more than measurements have."""
    return tuple(float(f"{value:.7g}") for value in values)
