"""The compute-optimal run of a surface that has no closed form, looked for on a grid of sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calc.fitting.forms import Array

_REACH = 100.0
"""Times the runs' smallest and largest sizes, between which the optimum is looked for."""
_POINTS = 400
_SETS = 500
"""Sets of constants in one array."""

Losses = Callable[[Array, Array, Array], Array]
"""Sets of constants, shape (sets, constants), and N and D, (points,) -> losses, shape (sets, points)."""


def valley(losses: Losses, sets: Array, params: Array, compute: float) -> dict[str, Array]:
    """params, tokens, tokens_per_param and loss of the lowest loss at 6 N D = compute, each of shape (sets,).

    Only bottoms of valleys count: at the ends of the sizes that are looked at a surface may fall for want of runs. NaN
    where there is none. Between points of the grid the loss is a parabola in ln N.
    """
    log_n = np.linspace(np.log(params.min() / _REACH), np.log(params.max() * _REACH), _POINTS)
    n = np.exp(log_n)
    found = [
        _lowest(losses(some, n, compute / (6 * n)), log_n) for some in np.array_split(sets, -(-len(sets) // _SETS))
    ]
    best, loss = (np.concatenate(each) for each in zip(*found, strict=True))
    size = np.exp(best)
    tokens = compute / (6 * size)
    return {"params": size, "tokens": tokens, "tokens_per_param": tokens / size, "loss": loss}


def _lowest(loss: Array, log_n: Array) -> tuple[Array, Array]:
    """ln N and the loss at the bottom of each row."""
    inner = loss[:, 1:-1]
    bottom_there = (inner <= loss[:, :-2]) & (inner < loss[:, 2:])
    at = 1 + np.where(bottom_there, inner, np.inf).argmin(axis=1)
    inside = bottom_there.any(axis=1)
    rows = np.arange(len(loss))
    low, middle, high = (loss[rows, at + off] for off in (-1, 0, 1))
    with np.errstate(all="ignore"):
        bend = low - 2 * middle + high
        shift = np.where(bend > 0, (low - high) / (2 * bend), 0.0)
        bottom = middle - (low - high) * shift / 4
    step = log_n[1] - log_n[0]
    return np.where(inside, log_n[at] + shift * step, np.nan), np.where(inside, bottom, np.nan)
