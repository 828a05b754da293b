"""The best constants of a form for given runs: spread starts, all carried to the optimum together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

from calc.fitting.forms import Array, Form
from calc.fitting.solver import Data, Evaluate, Solved, objective, residuals, solve

HUBER = 1e-3
"""Where Huber's loss turns from square: Hoffmann et al. (2022)."""
SQUARES = np.inf
_LAD = 1e-7
"""Huber's delta at which nothing but absolute deviations is left: residuals of real runs are 10^4 times that."""
_SAMPLE = 4_000
"""Runs that the starts are tried on; their optimum is carried on to all runs."""


class Objective(NamedTuple):
    """What is minimised over ln predicted - ln observed. delta: Huber's, infinite for squares."""

    name: str
    delta: float
    meaning: str

    def value(self, error: Array) -> float:
        """The objective as it is reported, of residuals of shape (runs,)."""
        if self.name == "lad":
            return float(np.abs(error).sum())
        return float(objective(error[None], np.ones((1, 1)), self.delta)[0]) * (2 if self.name == "squares" else 1)


def huber(delta: float = HUBER) -> Objective:
    """The sum of Huber losses of this delta."""
    return Objective("huber", delta, f"sum over runs of Huber({delta:g}) of ln predicted - ln observed")


OBJECTIVES = {
    "huber": huber(),
    "lad": Objective("lad", _LAD, "sum over runs of |ln predicted - ln observed|"),
    "squares": Objective("squares", SQUARES, "sum over runs of (ln predicted - ln observed)^2"),
}


class Best(NamedTuple):
    """moving: the constants, shape (constants,), centred. agreeing: how many of the starts came to this optimum."""

    moving: Array
    objective: float
    error: Array
    starts: int
    agreeing: int


def best(form: Form, data: Data, aim: Objective) -> Best:
    """The lowest optimum that any of the starts reaches."""
    sample = thinned(data, _SAMPLE)
    begun = starts(form, sample)
    solved = carry(partial(residuals, form, sample), begun, np.ones((1, sample.log_n.size)), aim.delta)
    order = np.argsort(np.where(np.isfinite(solved.objective), solved.objective, np.inf))
    first = order[0]
    near = solved.objective <= solved.objective[first] * (1 + 1e-9) + 1e-20
    same = (np.abs(solved.moving - solved.moving[first]) <= 1e-4).all(axis=1)
    moving = solved.moving[[first]]
    if sample is not data:
        recentred = data.centred(sample.plain(form.full(moving)))
        everything = np.ones((1, data.log_n.size))
        moving = carry(partial(residuals, form, data), form.moving(recentred), everything, aim.delta).moving
    error = residuals(form, data, moving)[0][0]
    return Best(moving[0], aim.value(error), error, len(begun), int((near & same).sum()))


def carry(evaluate: Evaluate, start: Array, weights: Array, delta: float) -> Solved:
    """From far away: by squares and ever narrower Huber losses to the one that is asked for.

    The wide ones need only be rough. Below 1e-3, on the way to absolute deviations, each is followed closely: the
    optimum is then at a corner, where a step from anywhere but nearby finds nothing lower.
    """
    moving = solve(evaluate, start, weights, SQUARES, gain=1e-3).moving
    width = 0.1
    while width > delta:
        moving = solve(evaluate, moving, weights, width, gain=1e-3 if width > 1e-3 else 1e-10).moving
        width /= 10
    return solve(evaluate, moving, weights, delta)


def starts(form: Form, data: Data) -> Array:
    """Starts of every steepness and every split of the mean loss among its terms, shape (starts, constants)."""
    mean = float(data.log_loss.mean())
    bends: Sequence[float] = (0.1, 0.4, 1.0) if form.bends else (1.0,)
    sets = []
    for k, (steep_n, steep_d), (part_n, part_d) in product(
        bends,
        product((0.1, 0.3, 0.8), repeat=2),
        ((0.1, 0.1), (0.3, 0.1), (0.1, 0.3)),
    ):
        reducible = part_n + part_d
        inner = (mean + np.log(reducible)) / k
        ln_a, ln_b = inner + np.log(part_n / reducible), inner + np.log(part_d / reducible)
        sets.append((ln_a, steep_n / k, ln_b, steep_d / k, mean + np.log(1 - reducible), np.log(k)))
    # Where constants are held or tied, several starts are one.
    return np.unique(form.moving(np.array(sets)), axis=0)


def thinned(data: Data, most: int) -> Data:
    """The same runs, or `most` of them, drawn with a fixed seed."""
    n = data.log_n.size
    if n <= most:
        return data
    chosen = np.sort(np.random.default_rng(0).choice(n, most, replace=False))
    return Data.of(
        np.exp(data.log_n[chosen] + data.mean_log_n),
        np.exp(data.log_d[chosen] + data.mean_log_d),
        np.exp(data.log_loss[chosen]),
    )
