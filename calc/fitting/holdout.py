"""How well a fit extrapolates: from the runs up to one compute, how far off are predictions of the next ones?

Rolling origin: the runs are cut at several computes, and each part is predicted by a fit to all before it. One cut
alone ranks forms by a handful of runs; the same runs predicted by two forms are compared pair by pair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from calc.fitting.forms import Array, Form
from calc.fitting.minimum import Objective, best
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
_ROUNDING = 1e-8
"""Of ln loss: fits to runs without noise differ by less, and by how much depends on the machine."""
_STUDENT_T = (12.7, 4.30, 3.18, 2.78)
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

    @classmethod
    def of(cls, errors: Sequence[Array], flop: Array, first: np.ndarray[Any, Any]) -> HeldOut | None:
        """From the errors of each part; first: places of the runs of the first. None where one is no number."""
        every = np.concatenate(errors)
        if not np.isfinite(every).all():
            return None
        return cls(
            runs=every.size,
            folds=len(errors),
            compute=float(flop[first].min()),
            rms=float(np.sqrt((every**2).mean())),
            bias=float(every.mean()),
            errors=every,
            fold=np.repeat(np.arange(len(errors)), [each.size for each in errors]),
        )


Rows = np.ndarray[Any, Any]
"""Places of runs."""
Fitted = Callable[[Rows, Array | None], Array]
"""The rows to fit, and the constants for fewer of them -> constants."""
Errors = Callable[[Array, Rows], Array]
"""Constants, and rows -> ln predicted - ln observed of each."""


class Behind(NamedTuple):
    """The logarithm of a form's mean squared error over the best one's, as a mean over folds, and its standard error.

    Ratios and not differences: errors grow from fold to fold as the runs lie farther off, and the last would be all.
    """

    gap: float
    error: float
    folds: int

    @property
    def distinguished(self) -> bool:
        """Whether the runs tell the form from the best."""
        return self.folds > 1 and self.gap > _STUDENT_T[min(self.folds - 2, len(_STUDENT_T) - 1)] * self.error


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


def held_out(form: Form, runs: Runs, aim: Objective) -> HeldOut | None:
    """The errors of fits to the runs before each part; None where they are too few, or of too few sizes."""
    if len(runs) > _MOST:
        runs = runs.where(np.linspace(0, len(runs) - 1, _MOST).astype(int))

    def fitted(rows: Rows, before: Array | None) -> Array:
        data = _data(form, runs, rows)
        if before is None:
            return data.plain(form.full(best(form, data, aim).moving))
        start = form.moving(data.centred(before))[None]
        solved = solve(partial(residuals, form, data), start, np.ones((1, rows.size)), aim.delta, gain=1e-9)
        return data.plain(form.full(solved.moving[0]))

    def errors(theta: Array, rows: Rows) -> Array:
        return np.log(form.loss(theta, runs.params[rows], runs.tokens[rows])) - np.log(runs.loss[rows])

    return rolling(fitted, errors, runs.six_nd, len(form.free))


def _data(form: Form, runs: Runs, rows: Rows) -> Data:
    return Data.of(*form.axes(runs.params[rows], runs.tokens[rows]), runs.loss[rows])


def rolling(fitted: Fitted, errors: Errors, flop: Array, constants: int) -> HeldOut | None:
    """The same of anything that can be fitted to some of the rows and has errors on others.

    No fit begins where one that saw later runs ended: in a flat valley it would stay near there, and look better than
    it is. The first has starts of its own, each later one may begin where the one before it ended.
    """
    found, off = parts(flop), []
    before: Array | None = None
    with np.errstate(all="ignore"):  # what a fit of few runs says of others may be no number, and is then not counted
        for part in found:
            seen = np.flatnonzero(flop < flop[part].min())
            if seen.size <= constants:
                return None
            before = fitted(seen, before)
            if not np.isfinite(before).any():
                return None
            off.append(errors(before, part))
    return HeldOut.of(off, flop, found[0]) if found else None


def behind(each: HeldOut, first: HeldOut) -> Behind:
    """How a form compares with the best on the same runs; errors within a fold share a fit and count as one."""
    both = (np.bincount(first.fold, one.errors**2 + _ROUNDING**2) for one in (each, first))
    own, best_own = (np.log(sums) for sums in both)
    ratio = own - best_own
    spread = float(ratio.std(ddof=1)) if first.folds > 1 else 0.0
    return Behind(float(ratio.mean()), spread / first.folds**0.5, first.folds)
