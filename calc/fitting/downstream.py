"""What a task will be solved by: from sizes to the task's loss, and from that to its accuracy, as in OLMo's ladder.

Bhagia et al. 2024, Establishing Task Scaling Laws via Compute-Efficient Model Ladders (arXiv:2412.04403): the loss of
the task's correct answers follows E + A / N^alpha + B / D^beta, and accuracy is a sigmoid of that loss. Both steps are
fitted to one's own runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from calc.errors import Refused
from calc.fitting import bootstrap
from calc.fitting.fit import Fit, fit
from calc.fitting.forms import Array
from calc.fitting.minimum import SQUARES
from calc.fitting.runs import Runs
from calc.fitting.solver import solve
from calc.laws.uncertainty import Interval

_CONSTANTS = ("top", "floor", "slope", "middle")


@dataclass(frozen=True, slots=True)
class TaskFit:
    """loss: the first step. constants: of accuracy = floor + (top - floor) / (1 + e^(slope (loss - middle))).

    error: root-mean-square of the second step. chained: of both together, predicted from N and D.
    """

    loss: Fit
    constants: Mapping[str, float]
    error: float
    chained: float
    theta: Array = field(repr=False)

    def predict(self, params: Any, tokens: Any) -> Any:
        """The accuracy at N parameters and D tokens: numbers, or arrays that broadcast."""
        return accuracy(self.theta, np.asarray(self.loss.predict(params, tokens)))

    def interval(self, params: float, tokens: float, refits: Array, level: float = 0.95) -> Interval | None:
        """Of the accuracy, over refits of the second step, shape (refits, 4), as `refitted` makes them."""
        values = np.array([float(accuracy(row, np.asarray(self.loss.predict(params, tokens)))) for row in refits])
        return bootstrap.intervals({"accuracy": values}, level)["accuracy"]


def accuracy(theta: Array, loss: Array) -> Array:
    """The sigmoid of one set of constants (top, floor, slope, middle) at losses of any shape."""
    top, floor, slope, middle = theta
    return floor + (top - floor) / (1 + np.exp(slope * (loss - middle)))


def fit_task(runs: Runs, solved: Array, floor: float = 0.0, top: float | None = None, **options: Any) -> TaskFit:
    """Fit both steps to runs whose losses are the task's. solved: accuracy of each run, 0 to 1, shape (runs,).

    floor: accuracy of guessing, held; the others move. top: accuracy at the lowest losses, held where it is given: runs
    that solve little do not show it. options: of `calc.fit`, but for the law.
    Errors: Refused as `calc.fit`, for accuracies that are no shares, and for runs that all solve alike.
    """
    if not 0 <= floor < 1:
        raise Refused("floor", "the share that guessing solves, from 0 to below 1", floor)
    if top is not None and not floor < top <= 1:
        raise Refused("top", f"a share above the floor of {floor:g}, 1 at most", top)
    if solved.shape != runs.loss.shape or not ((solved >= 0) & (solved <= 1)).all():
        raise Refused("accuracy", "a share from 0 to 1 for each run", f"{solved.size} values")
    if np.ptp(solved) < 0.02:
        raise Refused("accuracy", "runs that differ by 0.02 and more", f"{np.ptp(solved):.3g}")
    first = fit(runs, "chinchilla", **options)
    theta = sigmoid(runs.loss, solved, floor, top)
    found = accuracy(theta, runs.loss)
    chained = accuracy(theta, first.predict(runs.params, runs.tokens))
    return TaskFit(
        loss=first,
        constants=dict(zip(_CONSTANTS, theta.tolist(), strict=True)),
        error=float(np.sqrt(((found - solved) ** 2).mean())),
        chained=float(np.sqrt(((chained - solved) ** 2).mean())),
        theta=theta,
    )


def refitted(runs: Runs, solved: Array, floor: float, refits: int, seed: int = 0, top: float | None = None) -> Array:
    """Constants of the second step for random exponential weights on the runs, shape (refits, 4)."""
    weights = np.random.default_rng(seed).standard_exponential((refits, runs.loss.size))
    start = _moving(sigmoid(runs.loss, solved, floor, top))
    evaluate = partial(_residuals, runs.loss, solved, floor, top)
    many = solve(evaluate, np.tile(start, (refits, 1)), weights, SQUARES, gain=1e-9).moving
    return np.array([_constants(row, floor, top) for row in many])


def sigmoid(loss: Array, solved: Array, floor: float, top: float | None = None) -> Array:
    """The constants (top, floor, slope, middle) with the least squares, from several starts."""
    middle, wide = float(np.median(loss)), float(np.ptp(loss)) or 1.0
    starts = np.array([[1.0, np.log(slope / wide), at] for slope in (2.0, 6.0) for at in (middle, loss.min())])
    evaluate = partial(_residuals, loss, solved, floor, top)
    found = solve(evaluate, starts, np.ones((1, loss.size)), SQUARES)
    return _constants(found.moving[int(np.nanargmin(found.objective))], floor, top)


def _constants(moving: Array, floor: float, held: float | None) -> Array:
    top = floor + (1 - floor) / (1 + np.exp(-moving[0])) if held is None else held
    return np.array([top, floor, np.exp(moving[1]), moving[2]])


def _moving(theta: Array) -> Array:
    top, floor, slope, middle = theta
    share = min(max((top - floor) / (1 - floor), 1e-9), 1 - 1e-9)
    return np.array([np.log(share / (1 - share)), np.log(slope), middle])


def _residuals(loss: Array, solved: Array, floor: float, top: float | None, moving: Array) -> tuple[Array, Array]:
    """As `calc.fitting.solver.residuals`; moving: logit of the top's share above the floor, ln slope, middle.

    A top that is held does not depend on the first of them, which then stays where it is.
    """
    held = None if top is None else (top - floor) / (1 - floor)
    share = 1 / (1 + np.exp(-moving[:, [0]])) if held is None else np.full((len(moving), 1), held)
    slope, off = np.exp(moving[:, [1]]), loss - moving[:, [2]]
    falling = 1 / (1 + np.exp(np.clip(slope * off, -500, 500)))
    high = (1 - floor) * share
    steep = -high * falling * (1 - falling)
    of_top = high * (1 - share) * falling * (held is None)
    slopes = np.stack([of_top, steep * slope * off, -steep * slope], axis=1)
    return floor + high * falling - solved, slopes
