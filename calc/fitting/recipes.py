"""Two recipes as a compute multiplier: how many times the FLOPs the first needs for the losses of the second.

Each recipe's frontier of loss is E + K / C^gamma, fitted to the lowest losses of its runs at each compute, the floor
shared: one text has one entropy. At a loss, the multiplier is the ratio of the two computes that reach it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from calc.errors import Refused
from calc.fitting import bootstrap
from calc.fitting.fit import check_options
from calc.fitting.forms import Array
from calc.fitting.minimum import carry, huber
from calc.fitting.runs import Runs
from calc.fitting.solver import solve
from calc.laws.uncertainty import Interval

_LEAST = 4
"""Runs of each recipe: two constants of its own and half of the floor."""

_SHOWN = 4
"""Computes at which the multiplier is given, over those that both recipes have runs of."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """constants: E, and of each recipe K and gamma. multiplier: FLOPs of the first over those of the second for the
    loss that the second has at each of `compute`; above 1 the second saves. growth: of its logarithm for each tenfold
    compute of the second. intervals: of each multiplier.
    """

    constants: Mapping[str, float]
    compute: tuple[float, ...]
    multiplier: tuple[float, ...]
    growth: float
    intervals: tuple[Interval | None, ...]
    growth_interval: Interval | None
    theta: Array = field(repr=False)

    @property
    def grows(self) -> str:
        """Whether what is saved changes with scale, as far as the runs tell."""
        band = self.growth_interval
        if band is None:
            return "whether that changes with scale takes refits"
        if band.low <= 0 <= band.high:
            return "no change with scale that these runs could tell"
        return "grows with scale" if band.low > 0 else "shrinks with scale"


def compare(first: Runs, second: Runs, refits: int = 2000, level: float = 0.95, seed: int = 0) -> Comparison:
    """How much compute the second recipe saves against the first, over the computes that both have runs of.
    Without refits there are no intervals.

    Runs of each recipe should follow one rule of allocation (a ladder, or the best of each budget): of runs at several
    tokens a parameter those that no cheaper one beats are taken. Errors: Refused for fewer than four such runs each.
    """
    tables = [_frontier(runs) for runs in (first, second)]
    for which, (c, _) in zip(("first", "second"), tables, strict=True):
        if c.size < _LEAST:
            raise Refused("runs", f"{_LEAST} runs of the {which} recipe that no cheaper one beats", c.size)
    log_c = np.log(np.concatenate([c for c, _ in tables]))
    log_loss = np.log(np.concatenate([loss for _, loss in tables]))
    which = np.repeat([0, 1], [c.size for c, _ in tables])
    middle = float(log_c.mean())
    evaluate = partial(_residuals, log_c - middle, log_loss, which)
    start = _starts(log_c - middle, log_loss, which)
    solved = carry(evaluate, start, np.ones((1, which.size)), huber().delta)
    best = solved.moving[int(np.nanargmin(solved.objective))]
    low, high = max(float(c.min()) for c, _ in tables), min(float(c.max()) for c, _ in tables)
    if high < 2 * low:
        raise Refused("runs", "computes that both recipes have runs of, twofold at least", f"{low:.3g} to {high:.3g}")
    at = np.geomspace(low, high, _SHOWN)
    check_options(refits, level)
    drawn = _refitted(evaluate, best, which.size, refits, seed)
    many = np.stack([_multiplier(drawn, np.log(c) - middle) for c in at])
    growth = np.log(many[-1] / many[0]) / np.log10(at[-1] / at[0])
    one = np.array([_multiplier(best[None], np.log(c) - middle)[0] for c in at])
    columns = {str(i): row for i, row in enumerate(many)} | {"growth": growth}
    bands = bootstrap.intervals(columns, level) if refits else dict.fromkeys(columns)
    k = np.exp(best[[1, 3]] + best[[2, 4]] * middle)
    names = {"E": float(np.exp(best[0])), "K_1": float(k[0]), "gamma_1": float(best[2])}
    return Comparison(
        constants=names | {"K_2": float(k[1]), "gamma_2": float(best[4])},
        compute=tuple(at.tolist()),
        multiplier=tuple(one.tolist()),
        growth=float(np.log(one[-1] / one[0]) / np.log10(at[-1] / at[0])),
        intervals=tuple(bands[str(i)] for i in range(at.size)),
        growth_interval=bands["growth"],
        theta=best,
    )


def _frontier(runs: Runs) -> tuple[Array, Array]:
    """Computes and losses of the runs that no cheaper one beats."""
    order = np.argsort(runs.six_nd, kind="stable")
    c, loss = runs.six_nd[order], runs.loss[order]
    lowest = loss <= np.minimum.accumulate(loss)
    return c[lowest], loss[lowest]


def _residuals(log_c: Array, log_loss: Array, which: np.ndarray[Any, Any], moving: Array) -> tuple[Array, Array]:
    """As `calc.fitting.solver.residuals`; moving: ln E, then ln K and gamma of each recipe."""
    floor = np.exp(moving[:, [0]])
    power = np.exp(moving[:, 1 + 2 * which] - moving[:, 2 + 2 * which] * log_c)
    total = floor + power
    slopes = np.zeros((len(moving), 5, log_c.size))
    slopes[:, 0] = floor / total
    for each in (0, 1):
        own = np.where(which == each, power / total, 0.0)
        slopes[:, 1 + 2 * each], slopes[:, 2 + 2 * each] = own, -own * log_c
    return np.log(total) - log_loss, slopes


def _starts(log_c: Array, log_loss: Array, which: np.ndarray[Any, Any]) -> Array:
    """The floor at several parts of the lowest loss; the powers through what is left."""
    found = []
    for part in (0.3, 0.6, 0.8, 0.95):
        floor = part * np.exp(log_loss.min())
        row = [np.log(floor)]
        for each in (0, 1):
            own = which == each
            slope, height = np.polyfit(log_c[own], np.log(np.exp(log_loss[own]) - floor), 1)
            row += [height, max(-slope, 0.01)]
        found.append(row)
    return np.array(found)


def _refitted(evaluate: Any, best: Array, rows: int, refits: int, seed: int) -> Array:
    """Refits with exponential weights, as `calc.fitting.bootstrap.refits`."""
    drawn = np.random.default_rng(seed).standard_exponential((max(refits, 1), rows))
    weights = drawn * (rows / drawn.sum(axis=1, keepdims=True))
    return solve(evaluate, np.tile(best, (len(weights), 1)), weights, 1e-3, gain=1e-7).moving


def _multiplier(theta: Array, log_c: float) -> Array:
    """FLOPs of the first over the second's at the second's loss there: the shared floor falls out."""
    above = theta[:, 3] - theta[:, 4] * log_c
    with np.errstate(all="ignore"):
        return np.exp((theta[:, 1] - above) / theta[:, 2] - log_c)
