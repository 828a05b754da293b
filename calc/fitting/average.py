"""The optimum over all forms that the runs cannot tell apart: which form is right is part of the doubt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calc.fitting import bootstrap
from calc.fitting.fit import Fit
from calc.fitting.holdout import Behind, behind
from calc.laws.uncertainty import Interval


@dataclass(frozen=True, slots=True)
class Average:
    """optimum: by the names of `Fit.optimum`, at `compute` FLOP: the geometric mean over the forms, each counting once.

    intervals: of the refits of all of them together. forms: which they are, the best first.
    """

    forms: tuple[str, ...]
    optimum: Mapping[str, float]
    intervals: Mapping[str, Interval | None]
    compute: float


def behind_first(fits: Sequence[Fit]) -> list[Behind | None]:
    """How far each form is behind the first; None where one of them has no held-out error."""
    best = fits[0].held_out
    return [None if best is None or fit.held_out is None else behind(fit.held_out, best) for fit in fits]


def as_good_as_first(fits: Sequence[Fit]) -> list[Fit]:
    """The forms that the runs do not tell from the first, by their paired held-out errors; at least the first."""
    pairs = zip(fits, behind_first(fits), strict=True)
    return [fit for fit, place in pairs if fit is fits[0] or (place is not None and not place.distinguished)]


def average(fits: Sequence[Fit]) -> Average | None:
    """Over the forms that cannot be told apart and have an optimum; None where fewer than two have one."""
    alike = [fit for fit in as_good_as_first(fits) if fit.optimum]
    if len(alike) < 2:
        return None
    optimum: dict[str, float] = {}
    intervals: dict[str, Interval | None] = {}
    for name in alike[0].optimum or {}:
        optimum[name] = float(np.exp(np.mean([np.log(fit.optimum[name]) for fit in alike if fit.optimum])))
    if all(fit.refits and fit.optima for fit in alike):
        pooled = {name: np.concatenate([fit.optima[name] for fit in alike]) for name in optimum}
        intervals = bootstrap.intervals(pooled, fits[0].level)
    return Average(tuple(fit.law for fit in alike), optimum, intervals, alike[0].compute)
