"""How well a fit extrapolates: from the runs up to one compute, how far off are predictions of the next ones?

Rolling origin: the runs are cut at several computes, and each part is predicted by a fit to all before it. One cut
alone ranks forms by a handful of runs; the same runs predicted by two forms are compared pair by pair.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from calc.fitting.forms import Array, Form
from calc.fitting.minimum import Objective
from calc.fitting.runs import Runs
from calc.fitting.solver import Data, residuals, solve

_FIRST = 0.5
"""Of the runs, in the order of their compute, that the first fit takes at least."""
_FOLDS = 5
_LEAST = 9
"""Runs of the first fit: more than the constants of every form."""
_SAME = 0.98
"""Runs of one budget, which differ by rounding, stay together: their computes over one another."""
_MOST = 20_000
"""Runs beyond which some of them, spread evenly, say as much."""
_TOLD = (12.7, 4.30, 3.18, 2.78)
"""Standard errors, by folds less one, by which a form must be behind: Student's t for 95 %."""


class HeldOut(NamedTuple):
    """runs: how many were predicted. folds: in how many parts. compute: from which FLOP on. rms, bias: of
    ln predicted - ln observed in them. errors, fold: of each of these runs, for comparing forms."""

    runs: int
    folds: int
    compute: float
    rms: float
    bias: float
    errors: Array
    fold: np.ndarray[Any, Any]


class Behind(NamedTuple):
    """How much larger a form's mean squared error is than the best one's, and its standard error over folds."""

    gap: float
    error: float
    folds: int

    @property
    def told(self) -> bool:
        """Whether the runs tell the form from the best."""
        return self.folds > 1 and self.gap > _TOLD[min(self.folds - 2, len(_TOLD) - 1)] * self.error


def parts(compute: Array) -> list[np.ndarray[Any, Any]]:
    """Places of the runs of each part that is predicted, cheapest first; none where there are too few runs."""
    order = np.argsort(compute, kind="stable")
    ordered = compute[order]
    first = max(_LEAST, round(_FIRST * compute.size))
    if compute.size <= first:
        return []
    wanted = np.unique(np.linspace(first, compute.size, _FOLDS + 1)[:-1].astype(int))
    # A cut between two runs of one budget moves to the budget's beginning, or, for the first cut, to its end.
    cuts = [int(np.searchsorted(ordered, ordered[cut] * _SAME)) for cut in wanted]
    cuts = sorted({cut for cut in cuts if cut >= _LEAST})
    ends = [*cuts[1:], compute.size]
    return [order[begin:end] for begin, end in zip(cuts, ends, strict=True)]


def held_out(form: Form, runs: Runs, aim: Objective, theta: Array) -> HeldOut | None:
    """The errors of fits to the runs before each part; None where they are too few, or of too few sizes.

    theta: the fit to all runs, shape (6,), whose neighbourhood each search starts in (it ends where its runs lead it).
    All parts are fitted at once, each with the weight 0 on the runs that it is not to see.
    """
    if len(runs) > _MOST:
        runs = runs.where(np.linspace(0, len(runs) - 1, _MOST).astype(int))
    flop = runs.six_nd
    found = parts(flop)
    data = Data.of(*form.axes(runs.params, runs.tokens), runs.loss)
    start = form.moving(data.centred(theta))
    if not found or not np.isfinite(start).all():
        return None
    seen = np.stack([flop < flop[part].min() for part in found])
    if seen[0].sum() <= len(form.free):
        return None
    solved = solve(
        partial(residuals, form, data), np.tile(start, (len(found), 1)), seen.astype(np.float64), aim.delta, gain=1e-9
    )
    error = residuals(form, data, solved.moving)[0]
    every = np.concatenate([error[fold, part] for fold, part in enumerate(found)])
    if not np.isfinite(every).all():
        return None
    return HeldOut(
        runs=every.size,
        folds=len(found),
        compute=float(flop[found[0]].min()),
        rms=float(np.sqrt((every**2).mean())),
        bias=float(every.mean()),
        errors=every,
        fold=np.repeat(np.arange(len(found)), [part.size for part in found]),
    )


def behind(each: HeldOut, best: HeldOut) -> Behind:
    """How a form compares with the best on the same runs; errors within a fold share a fit and count as one."""
    gap = each.errors**2 - best.errors**2
    sums = np.bincount(best.fold, gap - gap.mean())
    spare = best.folds / max(best.folds - 1, 1)
    return Behind(float(gap.mean()), float(np.sqrt(spare * (sums**2).sum()) / gap.size), best.folds)
