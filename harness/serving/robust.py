"""Positive constants by robust least squares: drawn towards where they begin, none beyond its bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

DRAWN = 0.7
"""Weight of a constant's own residual: how far its logarithm is from where it began, in its width."""


def fitted(
    begin: Mapping[str, float],
    residuals: Callable[[Mapping[str, float]], Any],
    width: Callable[[str], float],
    highest: Mapping[str, float],
    rounds: int,
) -> dict[str, float]:
    """The constants whose residuals are least. residuals: what constants leave, in their tolerances; width: how far the
    logarithm of a constant strays; highest: bounds of those that have one."""
    import numpy as np
    from scipy.optimize import least_squares

    names = list(begin)
    start = np.log([begin[name] for name in names])
    widths = np.array([width(name) for name in names])

    def left(at: Any) -> Any:
        drawn = (at - start) / widths * DRAWN
        return np.concatenate([residuals(dict(zip(names, np.exp(at), strict=True))), drawn])

    ends = np.array([math.log(highest.get(name, 1e12)) for name in names])
    found = least_squares(left, start, loss="soft_l1", max_nfev=rounds, x_scale=widths, bounds=(start - 6, ends))
    return dict(zip(names, map(float, np.exp(found.x)), strict=True))


def weights(systems: Sequence[str]) -> Any:
    """Weights of rows by their systems: of many rows of one each counts less, the fourth root of how many there are."""
    import numpy as np

    found = np.array([systems.count(system) ** -0.25 for system in systems])
    return found / found.mean()
