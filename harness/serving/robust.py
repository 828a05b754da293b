"""Positive constants by robust least squares: drawn towards where they begin, none beyond its bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

STEPS = (0.02, 0.002)
"""Of constants' logarithms, over which residuals are compared: first far, so that a constant is seen to matter again
beyond the bound of another at which it does nothing; then near."""
ROUNDS = 300
"""Of least squares, at most, for each of STEPS: a fit ends by itself where nothing is gained."""
GAIN = 1e-6
"""Of what is left, what a round must gain for another to follow."""


def fitted(
    begin: Mapping[str, float],
    residuals: Callable[[Mapping[str, float]], Any],
    width: Callable[[str], float],
    highest: Mapping[str, float],
    rounds: int,
    drawn: float,
    slopes: Callable[[Mapping[str, float], float], Any] | None = None,
) -> dict[str, float]:
    """The constants whose residuals are least. residuals: what constants leave, in their tolerances; width: how far the
    logarithm of a constant strays; highest: bounds of those that have one; rounds: at most, for each of STEPS.
    drawn: weight of a constant's own residual, how far its logarithm is from where it began, in its width. slopes: how
    residuals change with the constants' logarithms over a step; without it, one constant after the other."""
    import numpy as np
    from scipy.optimize import least_squares

    names = list(begin)
    start = np.log([begin[name] for name in names])
    widths = np.array([width(name) for name in names])
    change = slopes if slopes is not None else one_by_one(residuals)

    def named(at: Any) -> dict[str, float]:
        return dict(zip(names, map(float, np.exp(at)), strict=True))

    def left(at: Any) -> Any:
        return np.concatenate([residuals(named(at)), (at - start) / widths * drawn])

    def changing(step: float) -> Any:
        return lambda at: np.concatenate([change(named(at), step), np.diag(drawn / widths)])

    ends, found = np.array([math.log(highest.get(name, 1e12)) for name in names]), start
    for step in STEPS:
        found = least_squares(
            left,
            found,
            changing(step),
            loss="soft_l1",
            max_nfev=rounds,
            x_scale=widths,
            bounds=(start - 6, ends),
            ftol=GAIN,
        ).x
    return named(found)


def one_by_one(residuals: Callable[[Mapping[str, float]], Any]) -> Callable[[Mapping[str, float], float], Any]:
    """How residuals change with each constant's logarithm over a step."""
    import numpy as np

    def change(given: Mapping[str, float], step: float) -> Any:
        low, high = math.exp(-step / 2), math.exp(step / 2)
        differences = [
            residuals({**given, name: value * high}) - residuals({**given, name: value * low})
            for name, value in given.items()
        ]
        return np.stack(differences, axis=1) / step

    return change


def weights(systems: Sequence[str]) -> Any:
    """Weights of rows by their systems: of many rows of one each counts less, the fourth root of how many there are."""
    import numpy as np

    found = np.array([systems.count(system) ** -0.25 for system in systems])
    return found / found.mean()
