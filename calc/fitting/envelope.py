"""Approach 1: the lowest of all training curves at each compute, and a power law through the sizes that reach it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from calc.errors import Refused
from calc.fitting.fit import Source, check_options
from calc.fitting.forms import Array
from calc.fitting.frontier import Budget, FrontierFit, Samples, compute_of, frontier
from calc.fitting.runs import Runs, read
from calc.workers.job import Progress

SOURCE = "Hoffmann et al. (2022), section 3.1 (approach 1): the envelope of training curves"
_BUDGETS = 256
"""Computes at which the curves are compared, evenly spaced in the logarithm; Hoffmann et al. take 1,500."""
_CELLS = 4_000_000


class _Curves(NamedTuple):
    """Training curves at common computes. log_loss, log_d: shape (curves, budgets), infinite where a curve is not."""

    log_c: Array
    log_n: Array
    log_loss: Array
    log_d: Array


def fit_envelope(
    runs: Source,
    *,
    refits: int = 4000,
    level: float = 0.95,
    compute: float | None = None,
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
    where: Sequence[str] = (),
    skip_invalid: bool = False,
    progress: Progress | None = None,
) -> FrontierFit:
    """Compute-optimal sizes from training curves: rows that share a run are points of one curve.

    Between its points a curve is a straight line of ln loss in ln compute; beyond them it is not continued. A compute
    counts where three sizes or more have a loss and the lowest belongs to neither the smallest nor the largest of them.
    Refits resample whole curves. The other options are those of `calc.fit`.
    Errors: Refused for what `calc.fitting.runs.read` refuses, a file without a column of runs, and fewer than three
    curves of two points.
    """
    check_options(refits, level)
    given = read(runs, columns, where, skip_invalid, with_flops=True)
    curves = _curves(given)
    everyone = np.ones((1, len(curves.log_n)), dtype=bool)
    winner = _winners(curves, everyone)[0]
    there = winner >= 0
    notes = [] if there.any() else ["at no compute does a middle size have the lowest loss"]
    at = np.flatnonzero(there)
    budgets = [_budget(curves, int(i), int(winner[i])) for i in at]
    sizes = len({each.params for each in budgets})
    if budgets and sizes < 3:
        notes.append(f"the envelope passes through {sizes} size{'s' * (sizes > 1)} only: the exponents rest on little")
    samples = _samples(curves, at, refits, seed, progress) if refits and budgets else None
    return frontier("envelope", SOURCE, given, budgets, samples, level, compute, notes)


def _budget(curves: _Curves, at: int, winner: int) -> Budget:
    logs = curves.log_c[at], curves.log_n[winner], curves.log_d[winner, at], curves.log_loss[winner, at]
    compute, params, tokens, loss = map(float, np.exp(logs))
    return Budget(compute, params, tokens, loss, rows=1)


def _curves(runs: Runs) -> _Curves:
    if runs.curve is None:
        raise Refused("runs", "a column of runs (named run, run_id, …) that says which rows are one curve", "none")
    flop = compute_of(runs)
    names, which = np.unique(runs.curve.astype(str), return_inverse=True)
    order = np.lexsort((flop, which))
    pieces = np.split(order, np.flatnonzero(np.diff(which[order])) + 1)
    # A curve is of one size: rows of one name and several sizes are several curves' final points, and no curve.
    pieces = [rows for rows in pieces if len(rows) > 1 and np.ptp(runs.params[rows]) == 0]
    if len({float(runs.params[rows[0]]) for rows in pieces}) < 3:
        raise Refused("runs", "training curves, of two points or more, of three sizes or more", f"{len(names)} runs")
    used = np.concatenate(pieces)
    log_c = np.linspace(np.log(flop[used].min()), np.log(flop[used].max()), _BUDGETS)
    log_loss = np.full((len(pieces), _BUDGETS), np.inf)
    log_d = np.full_like(log_loss, np.inf)
    for i, rows in enumerate(pieces):
        at = np.log(flop[rows])
        inside = (log_c >= at[0]) & (log_c <= at[-1])
        log_loss[i, inside] = np.interp(log_c[inside], at, np.log(runs.loss[rows]))
        log_d[i, inside] = np.interp(log_c[inside], at, np.log(runs.tokens[rows]))
    return _Curves(log_c, np.log([runs.params[rows[0]] for rows in pieces]), log_loss, log_d)


def _winners(curves: _Curves, taken: np.ndarray) -> np.ndarray:
    """The curve that is lowest at each compute, shape (samples, budgets); -1 where it is of an outermost size.

    taken: which curves a sample holds, shape (samples, curves).
    """
    loss = np.where(taken[:, :, None], curves.log_loss, np.inf)
    there = np.isfinite(loss)
    size = curves.log_n[None, :, None]
    smallest = np.where(there, size, np.inf).min(axis=1)
    largest = np.where(there, size, -np.inf).max(axis=1)
    winner = loss.argmin(axis=1)
    own = curves.log_n[winner]
    return np.where((own > smallest) & (own < largest), winner, -1)


def _samples(curves: _Curves, at: np.ndarray, refits: int, seed: int, progress: Progress | None) -> Samples:
    random = np.random.default_rng(seed)
    n = len(curves.log_n)
    curves = _Curves(curves.log_c[at], curves.log_n, curves.log_loss[:, at], curves.log_d[:, at])
    log_n, log_d = np.empty((refits, at.size)), np.empty((refits, at.size))
    chunk = max(1, _CELLS // (n * at.size))
    for first in range(0, refits, chunk):
        some = slice(first, min(first + chunk, refits))
        taken = random.multinomial(n, np.full(n, 1 / n), size=some.stop - first) > 0
        winner = _winners(curves, taken)
        log_n[some] = np.where(winner >= 0, curves.log_n[winner], np.nan)
        log_d[some] = np.where(winner >= 0, curves.log_d[winner, np.arange(at.size)], np.nan)
        if progress is not None:
            progress("refits", some.stop, refits)
    return Samples(log_n, log_d)
