"""How well a fit extrapolates: without the runs of the largest compute, how far off are its predictions of them?"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from calc.fitting.forms import Array, Form
from calc.fitting.minimum import Objective, carry
from calc.fitting.runs import Runs
from calc.fitting.solver import Data, residuals

_LEAST = 3
_SHARE = 0.1


class HeldOut(NamedTuple):
    """runs: how many were held out. compute: from which FLOP on. rms, bias: of ln predicted - ln observed in them."""

    runs: int
    compute: float
    rms: float
    bias: float


def largest(compute: Array) -> np.ndarray:
    """Which runs are held out, as a mask: a tenth of them, and at least three, by the largest compute."""
    count = min(compute.size, max(_LEAST, round(_SHARE * compute.size)))
    # Runs of one budget, which differ by rounding, stay together.
    return compute >= np.sort(compute)[-count] * 0.98


def held_out(form: Form, runs: Runs, aim: Objective, theta: Array) -> HeldOut | None:
    """The error of a fit to the other runs; None where they are too few, or of too few sizes, to be fitted.

    theta: the fit to all runs, shape (6,), whose neighbourhood the search starts in (it ends where the rest leads it).
    """
    last = largest(runs.six_nd)
    rest, test = runs.where(~last), runs.where(last)
    if len(rest) <= len(form.free):
        return None
    data = Data.of(*form.axes(rest.params, rest.tokens), rest.loss)
    start = form.moving(data.centred(theta))[None]
    if not np.isfinite(start).all():
        return None
    found = carry(partial(residuals, form, data), start, np.ones((1, len(rest))), aim.delta)
    refit = data.plain(form.full(found.moving[0]))
    error = np.log(form.loss(refit, test.params, test.tokens)) - np.log(test.loss)
    if not np.isfinite(error).all():
        return None
    return HeldOut(len(test), float(test.six_nd.min()), float(np.sqrt((error**2).mean())), float(error.mean()))
