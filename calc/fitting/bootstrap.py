"""How sure a fit is: refits of resampled runs, all carried on from the fit's own optimum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from calc.fitting import forms
from calc.fitting.forms import Array, Form
from calc.fitting.solver import Data, Evaluate, residuals, solve
from calc.laws.uncertainty import Interval
from calc.workers.identity import digest
from calc.workers.job import Job, Part, Progress
from calc.workers.workers import HERE, Workers

_BATCHES = 16
"""Batches of refits that a worker is handed together."""
_CHUNK = 12_000
"""Residuals in one batch of refits: their arrays stay in a core's cache."""
_NARROWEST = 1e-4
"""Absolute deviations are refitted as Huber losses this narrow: refits differ by far more than that changes."""
MOST_REFITTED = 20_000
"""Runs beyond which refits are drawn from the normal distribution that they tend to."""


class Groups(NamedTuple):
    """Which rows are resampled together. which: the group of each row, counted from 0, shape (runs,). n: groups."""

    which: np.ndarray[Any, Any]
    n: int

    @classmethod
    def alone(cls, rows: int) -> Groups:
        """Each row a group of its own."""
        return cls(np.arange(rows), rows)

    @classmethod
    def of(cls, curve: np.ndarray[Any, Any] | None, rows: int, constants: int) -> tuple[Groups, list[str]]:
        """The rows of each run as a group, and what is to be said of it.

        Where nothing names runs, or where there are too few to resample, each row is its own.
        """
        alone = cls.alone(rows)
        if curve is None:
            return alone, []
        names, which = np.unique(curve.astype(str), return_inverse=True)
        if names.size == rows:
            return alone, []
        if names.size < 2 * constants:
            note = f"too few to resample whole for {constants} constants: intervals are too narrow"
            return alone, [f"{rows:,} rows are points of {names.size:,} runs, {note}"]
        return cls(which, names.size), [f"{rows:,} rows are points of {names.size:,} runs, which are resampled whole"]

    def sums(self, columns: Array) -> Array:
        """Columns of the last axis summed within groups."""
        if self.n == self.which.size:
            return columns
        return np.stack([np.bincount(self.which, row, self.n).astype(np.float64) for row in columns])


def refits(
    form: Form,
    moving: Array,
    data: Data,
    delta: float,
    n: int,
    seed: int,
    progress: Progress | None,
    groups: Groups | None = None,
    workers: Workers = HERE,
) -> Array:
    """Full uncentred constants, shape (n, 6), of fits to the runs with n sets of random weights.

    The weights are exponential (Rubin 1981, The Bayesian Bootstrap). Drawing runs with replacement, as Besiroglu et al.
    (2024) do, tends to the same; of small tables it leaves out whole sizes, and its intervals come out too wide
    (tests/fitting/test_coverage.py). Runs are weighted one by one, or whole where `groups` says which rows are one run:
    points of one training curve are not independent. workers: who refits, with the same answer.
    """
    if data.log_n.size > MOST_REFITTED:
        return data.plain(form.full(normal(partial(residuals, form, data), moving, delta, n, seed, groups)))
    shared = _Shared(form.name, data, moving, max(delta, _NARROWEST), groups)
    each = max(1, _CHUNK // data.log_n.size)
    described = {"form": form.name, "delta": shared.delta, "n": n, "seed": seed}
    job = Job(
        "refits",
        lambda: {**described, "given": _digest(shared)},
        refitted,
        shared,
        _weights(shared, n, seed, each),
        -(-n // (each * _BATCHES)),
    )
    found: list[Array] = []
    for _, part in workers.results(job):
        found.append(np.stack(list(part.columns.values()), axis=1))
        if progress is not None:
            progress("refits", sum(map(len, found)), n)
    return data.plain(form.full(np.concatenate(found)))


class _Shared(NamedTuple):
    """What all refits have in common. form: its name, since its functions do not travel."""

    form: str
    data: Data
    moving: Array
    delta: float
    groups: Groups | None


def _digest(shared: _Shared) -> str:
    """A name for the runs and for the constants that refits start from."""
    pieces = [np.ascontiguousarray(each).tobytes() for each in (*shared.data, shared.moving)]
    return digest(*pieces, b"" if shared.groups is None else np.ascontiguousarray(shared.groups.which).tobytes())


def _weights(shared: _Shared, n: int, seed: int, each: int) -> Iterator[list[Array]]:
    """Random weights, batches of a chunk: drawn here one after the other, so that whoever refits has the same."""
    random = np.random.default_rng(seed)
    groups = shared.data.log_n.size if shared.groups is None else shared.groups.n
    for first in range(0, n, each * _BATCHES):
        starts = range(first, min(n, first + each * _BATCHES), each)
        yield [random.standard_exponential((min(each, n - start), groups)) for start in starts]


def refitted(shared: _Shared, batches: list[Array]) -> Part:
    """The moving constants of refits, a column each. batches: of weights, each of shape (refits, groups)."""
    form, data, runs = forms.find(shared.form), shared.data, shared.data.log_n.size
    groups = shared.groups or Groups.alone(runs)
    found: list[Array] = []
    for drawn in batches:
        found.append(carried(partial(residuals, form, data), shared.moving, drawn, shared.delta, groups))
    columns = np.concatenate(found).T
    return Part({f"moving_{place}": np.ascontiguousarray(column) for place, column in enumerate(columns)})


def carried(evaluate: Evaluate, moving: Array, drawn: Array, delta: float, groups: Groups) -> Array:
    """Constants, shape (refits, constants), from `moving` to the optimum for weights of groups, (refits, groups)."""
    weights = (drawn * (groups.n / drawn.sum(axis=1, keepdims=True)))[:, groups.which]
    start = np.broadcast_to(moving, (len(drawn), moving.size))
    return solve(evaluate, start, weights, max(delta, _NARROWEST), gain=1e-7).moving


def weighted(
    evaluate: Evaluate, moving: Array, delta: float, n: int, seed: int, progress: Progress | None, groups: Groups
) -> Array:
    """As `refits`, here and in turn, of anything that has residuals: the moving constants, shape (n, constants)."""
    random = np.random.default_rng(seed)
    chunk = max(1, _CHUNK // groups.which.size)
    found: list[Array] = []
    for first in range(0, n, chunk):
        drawn = random.standard_exponential((min(chunk, n - first), groups.n))
        found.append(carried(evaluate, moving, drawn, delta, groups))
        if progress is not None:
            progress("refits", first + len(drawn), n)
    return np.concatenate(found)


def normal(evaluate: Evaluate, moving: Array, delta: float, n: int, seed: int, groups: Groups | None = None) -> Array:
    """Draws from the normal distribution of an estimator that solves "the slopes of all runs sum to zero".

    Its covariance is the sandwich of Huber (1967): inverse Hessian, sum of the slopes' squares, inverse Hessian.
    Slopes of one group are summed before they are squared.
    """
    error, jacobian = (each[0] for each in evaluate(moving[None]))
    # Inside delta alone counts; where it holds too few runs to say (absolute deviations), a width of the errors does.
    width = max(delta, 1.06 * float(np.std(error)) * error.size**-0.2) if np.isfinite(delta) else delta
    inside = (np.abs(error) <= width) * (delta / width if np.isfinite(delta) else 1.0)
    hessian = (jacobian * inside) @ jacobian.T
    slopes = jacobian * np.clip(error, -delta, delta)
    slopes = slopes if groups is None else groups.sums(slopes)
    inverse = np.linalg.pinv(hessian, hermitian=True)
    covariance = inverse @ (slopes @ slopes.T) @ inverse
    random = np.random.default_rng(seed)
    return random.multivariate_normal(moving, (covariance + covariance.T) / 2, size=n, method="eigh")


def intervals(values: Mapping[str, Array], level: float) -> dict[str, Interval | None]:
    """The percentile interval of each; None where a twentieth of the refits or more have no such value."""
    return {name: _interval(column, level) for name, column in values.items()}


def _interval(column: Array, level: float) -> Interval | None:
    there = column[np.isfinite(column)]
    if not column.size or there.size < 0.95 * column.size:
        return None
    low, high = np.quantile(there, ((1 - level) / 2, (1 + level) / 2))
    return Interval(level, float(low), float(high))
