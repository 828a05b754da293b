"""Approach 2: at each compute budget a parabola of loss in ln N, and a power law through the lowest points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from calc.errors import Refused
from calc.fitting.design import distinct
from calc.fitting.fit import Source, check_options
from calc.fitting.fit import fit as fit_form
from calc.fitting.forms import Array
from calc.fitting.frontier import Budget, FrontierFit, Samples, compute_of, frontier
from calc.fitting.optimum import optimum_at
from calc.fitting.runs import Runs, read
from calc.workers.job import Progress, one_by_one

SOURCE = "Hoffmann et al. (2022), section 3.2 (approach 2): isoFLOP profiles"
_WIDTH = np.log(1.2)
"""Runs of one budget: their computes differ by a fifth at most, as those read off published charts do."""
_BLOCKS = 1_000
_SIZES = 4
"""A parabola through three sizes leaves no error to see."""


class _Parabola(NamedTuple):
    """The runs of one budget, as a quadratic in ln N - middle sees them.

    moments: of each block of runs, the products that least squares sums up: with each other, shape (blocks, terms,
    terms), and with the loss, (blocks, terms). low, high: ends of the sizes in ln N.
    """

    rows: np.ndarray
    middle: float
    compute: float
    normal: Array
    right: Array
    low: float
    high: float


def fit_isoflop(
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
    """Compute-optimal sizes from isoFLOP profiles: groups of runs of (nearly) one compute and different sizes.

    A budget whose parabola has no lowest point strictly inside its own sizes is refused: it is left out, and named in
    the warnings. The other options are those of `calc.fit`.
    Errors: Refused for what `calc.fitting.runs.read` refuses and for fewer than two budgets with a lowest point.
    """
    check_options(refits, level)
    given = read(runs, columns, where, skip_invalid, with_flops=True)
    flop = compute_of(given)
    budgets, parabolas, notes = [], [], []
    groups = _groups(given, flop)
    for rows in groups:
        parabola = _parabola(given, flop, rows)
        ones = np.ones((1, len(parabola.right)))
        lowest, height, slope, bend = (float(each[0]) for each in _lowest(parabola, ones))
        if not np.isfinite(lowest):
            where_to = "no lowest point" if bend <= 0 else "its lowest point beyond its sizes"
            notes.append(f"the budget of {parabola.compute:.3g} FLOP is left out: a parabola with {where_to}")
            continue
        tokens = float(np.exp(_tokens_at(given, rows, lowest)))
        off = lowest - parabola.middle
        loss = height + slope * off + bend * off**2
        budgets.append(Budget(parabola.compute, math.exp(lowest), tokens, loss, len(rows), bend))
        parabolas.append(parabola)
    left = len(given) - sum(map(len, groups))
    if left:
        notes.append(f"{left:,} of {len(given):,} runs belong to no budget of {_SIZES} sizes or more")
    samples = _samples(given, parabolas, refits, seed, progress) if refits and parabolas else None
    if parabolas:
        notes += _bias(given, flop, parabolas)
    return frontier("isoflop", SOURCE, given, budgets, samples, level, compute, notes)


def _bias(runs: Runs, flop: Array, parabolas: Sequence[_Parabola]) -> list[str]:
    """How far off parabolas would be on these very sizes, were the losses those of the runs' fit to Chinchilla's form.

    A valley of E + A / N^alpha + B / D^beta is no parabola: sizes that reach far, or lie off its middle, move the
    lowest point of one. Empty where the form has no optimum for these runs.
    """
    try:
        surface = fit_form(replace(runs, notes=()), refits=0)
    except Refused:
        return []
    if surface.optimum is None or len(parabolas) < 2:
        return []
    exact = replace(runs, loss=surface.predict(runs.params, runs.tokens))
    log_c, off = [], []
    for each in parabolas:
        lowest = float(_lowest(_parabola(exact, flop, each.rows), np.ones((1, len(each.right))))[0][0])
        six_nd = float(np.exp(np.log(runs.six_nd[each.rows]).mean()))
        log_c.append(math.log(each.compute))
        off.append(lowest - math.log(optimum_at(surface.theta[None], six_nd).params[0]))
    there = np.isfinite(off)
    if there.sum() < 2:
        return []
    slope, height = np.polyfit(np.array(log_c)[there], np.array(off)[there], 1)
    far = math.expm1(height + slope * math.log(flop.max()))
    return [
        f"on these sizes parabolas would put N {far:+.1%} off at {flop.max():.3g} FLOP, and a {slope:+.4f}, were the "
        "losses those of the fit to chinchilla: the bias of the grid, which no interval holds"
    ]


def _groups(runs: Runs, flop: Array) -> list[np.ndarray]:
    """Rows of each budget, cheapest first: the fullest windows of compute, as long as they hold enough sizes."""
    left = np.argsort(flop, kind="stable")
    found = []
    while left.size:
        log_c = np.log(flop[left])
        ends = np.searchsorted(log_c, log_c + _WIDTH, side="right")
        first = int((ends - np.arange(left.size)).argmax())
        rows = left[first : ends[first]]
        # Windows are taken from the fullest on: where the fullest has too few rows, so has every other.
        if len(rows) <= _SIZES:
            break
        if distinct(runs.params[rows]) >= _SIZES:
            found.append(rows)
        left = np.delete(left, np.arange(first, ends[first]))
    return sorted(found, key=lambda rows: flop[rows[0]])


def _parabola(runs: Runs, flop: Array, rows: np.ndarray) -> _Parabola:
    log_n, log_c = np.log(runs.params[rows]), np.log(flop[rows])
    middle, budget = float(log_n.mean()), float(log_c.mean())
    columns = [np.ones(len(rows)), log_n - middle, (log_n - middle) ** 2]
    # Where the computes of a budget differ, a run is not to look better for having had more of it.
    if np.ptp(log_c) > 0.005 and len(rows) > _SIZES + 1:
        columns.append(log_c - budget)
    design, loss = np.stack(columns, 1), runs.loss[rows]
    # Very many runs are resampled in blocks, which for runs drawn at random comes to the same.
    blocks = np.random.default_rng(0).permutation(len(rows)) % min(len(rows), _BLOCKS)
    order = np.argsort(blocks, kind="stable")
    firsts = np.searchsorted(blocks[order], np.arange(blocks.max() + 1))
    normal = np.add.reduceat((design[:, :, None] * design[:, None, :])[order], firsts)
    right = np.add.reduceat((design * loss[:, None])[order], firsts)
    return _Parabola(rows, middle, math.exp(budget), normal, right, float(log_n.min()), float(log_n.max()))


def _lowest(parabola: _Parabola, weights: Array) -> tuple[Array, Array, Array, Array]:
    """ln N of the lowest point, NaN where it is not inside the sizes; height, slope and bend.

    weights: of the blocks, shape (samples, blocks); the rest is of shape (samples,).
    """
    terms = parabola.right.shape[1]
    normal = (weights @ parabola.normal.reshape(-1, terms * terms)).reshape(-1, terms, terms)
    right = weights @ parabola.right
    # A sample that holds one size many times has a matrix without inverse; so little more changes no other.
    normal += 1e-11 * np.trace(normal, axis1=1, axis2=2)[:, None, None] * np.eye(terms)
    height, slope, bend = np.moveaxis(np.linalg.solve(normal, right[:, :, None])[:, :3, 0], -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        lowest = parabola.middle - slope / (2 * bend)
    inside = (bend > 0) & (lowest > parabola.low) & (lowest < parabola.high)
    return np.where(inside, lowest, np.nan), height, slope, bend


def _tokens_at(runs: Runs, rows: np.ndarray, log_n: Any) -> Any:
    """ln D at ln N on the budget's line of ln D by ln N, which for C = 6 N D has the slope -1."""
    slope, height = np.polyfit(np.log(runs.params[rows]), np.log(runs.tokens[rows]), 1)
    return height + slope * log_n


def _samples(runs: Runs, parabolas: Sequence[_Parabola], refits: int, seed: int, progress: Progress | None) -> Samples:
    """Runs resampled within each budget."""
    random = np.random.default_rng(seed)
    log_n = np.empty((refits, len(parabolas)))
    log_d = np.empty_like(log_n)
    for column, parabola in enumerate(one_by_one("budgets", parabolas, progress)):
        n = len(parabola.right)
        weights = random.multinomial(n, np.full(n, 1 / n), size=refits).astype(np.float64)
        log_n[:, column] = _lowest(parabola, weights)[0]
        log_d[:, column] = _tokens_at(runs, parabola.rows, log_n[:, column])
    return Samples(log_n, log_d)
