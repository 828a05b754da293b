"""Which runs to make: designs of experiments that cost a budget, and how sure a fit to each would be of a target.

A design is a list of sizes and tokens. What it promises is simulated: losses of a law with the noise of real runs, a
fit to them with its interval at the target, many times over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from calc.errors import Refused
from calc.fitting.fit import fit
from calc.fitting.forms import Array
from calc.laws.base import Frontier
from calc.laws.parametric import Parametric
from calc.workers.job import Progress, one_by_one

NOISE = 0.004
"""Of ln loss from run to run: about what the best form leaves of the OLMo ladder (docs/scaling-laws-fits.md)."""
FEWEST = 12
"""Runs below which a design is not worth its simulation."""
TABLES = 40
REFITS = 200


class Design(NamedTuple):
    """Runs to make. params, tokens: of each run, shape (runs,). curve: the training that a row is a point of.

    flop: what all trainings cost, of points of one training the longest alone.
    """

    name: str
    params: Array
    tokens: Array
    curve: np.ndarray[Any, Any]

    @property
    def flop(self) -> float:
        return float(sum(self.six_nd[self.curve == name].max() for name in np.unique(self.curve)))

    @property
    def six_nd(self) -> Array:
        return 6 * self.params * self.tokens


class Promise(NamedTuple):
    """What fits to a design find at the target compute, over simulated tables.

    loss, params: median width of the interval of the optimum's loss, relative, and of its size, as upper over lower
    end. held: share of the intervals of the loss that hold the truth. found: share of the tables from which the optimum
    could be told at all.
    """

    loss: float
    params: float
    held: float
    found: float


def designs(form: Parametric, budget: float) -> list[Design]:
    """Designs of each kind that cost `budget` FLOP together, by a law whose optima they lie around.

    Errors: Refused for a budget that buys no models of 100,000 parameters.
    """
    return [_filled(name, kind, form, budget) for name, kind in _KINDS.items()]


def promise(
    design: Design,
    form: Parametric,
    target: float,
    noise: float = NOISE,
    seed: int = 0,
    progress: Progress | None = None,
) -> Promise:
    """What a fit of chinchilla's form to the design would know of the optimum at `target` FLOP.

    Rows of one training share half of the variance of the noise, as points of one curve do.
    """
    exact = form.loss(design.params, design.tokens)
    names, which = np.unique(design.curve, return_inverse=True)
    alone = names.size == which.size
    truth = Frontier(*form.frontier_terms()).loss(target)
    widths, sizes, held = [], [], []
    for table in one_by_one(design.name, range(TABLES), progress):
        random = np.random.default_rng([seed, table])
        shared, own = random.normal(0, noise, names.size)[which], random.normal(0, noise, which.size)
        error = own if alone else (shared + own) / math.sqrt(2)
        runs = {"params": design.params, "tokens": design.tokens, "loss": exact * np.exp(error)}
        if not alone:
            runs["run"] = design.curve
        found = fit(runs, refits=REFITS, compute=target, seed=table)
        loss, params = found.intervals.get("loss"), found.intervals.get("params")
        if loss is None or params is None:
            continue
        widths.append(loss.high / loss.low - 1)
        sizes.append(params.high / params.low)
        held.append(loss.low <= truth <= loss.high)
    if not widths:
        return Promise(math.inf, math.inf, 0.0, 0.0)
    return Promise(float(np.median(widths)), float(np.median(sizes)), float(np.mean(held)), len(widths) / TABLES)


def _filled(name: str, kind: _Kind, form: Parametric, budget: float) -> Design:
    """The design of a kind whose scale makes it cost the budget. Errors: Refused for a budget that buys no run."""
    low, high = budget * 1e-9, budget
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if kind(name, form, middle).flop < budget else (low, middle)
    found = kind(name, form, low)
    if found.params.min() < 1e5:
        raise Refused("--budget", "enough FLOP for models of 100,000 parameters", budget)
    return found


_Kind = Callable[[str, Parametric, float], Design]
"""name, law and the compute of its largest runs -> a design."""


def _isoflop(name: str, form: Parametric, top: float) -> Design:
    """Seven sizes at each of four budgets, up to six times off the optimum either way."""
    compute = np.repeat(top * np.geomspace(1 / 64, 1, 4), 7)
    params = _best(form, compute) * np.tile(np.geomspace(1 / 6, 6, 7), 4)
    return _design(name, params, compute / (6 * params))


def _ladder(name: str, form: Parametric, top: float) -> Design:
    """Six sizes, each at a quarter to eight times the optimum's tokens a parameter; the largest are left out."""
    params = np.geomspace(1 / 20, 1, 6) * _best(form, np.array(top))
    grid, times = np.repeat(params, 6), np.tile(2.0 ** np.arange(-2, 4), 6)
    tokens = times * _tokens(form, grid)
    affordable = 6 * grid * tokens <= 1.5 * top
    return _design(name, grid[affordable], tokens[affordable])


def _random(name: str, form: Parametric, top: float) -> Design:
    """Thirty runs of any compute and any size up to six times off the optimum, evenly in their logarithms."""
    random = np.random.default_rng(0)
    compute = top * 64.0 ** -random.uniform(0, 1, 30)
    params = _best(form, compute) * 6.0 ** random.uniform(-1, 1, 30)
    return _design(name, params, compute / (6 * params))


def _envelope(name: str, form: Parametric, top: float) -> Design:
    """Twelve sizes trained long at a constant rate, with a decay to a loss at seven lengths of each.

    Fewer trainings could not be weighted whole: their intervals would be too narrow.
    """
    params = np.repeat(_best(form, np.array(top)) * np.geomspace(1 / 20, 1, 12), 7)
    tokens = np.tile(4 * 2.0 ** -np.arange(7), 12) * _tokens(form, params)
    affordable = 6 * params * tokens <= 1.5 * top
    labels = np.repeat([f"size-{i + 1}" for i in range(12)], 7)[affordable]
    return Design(name, params[affordable], tokens[affordable], labels)


_KINDS: Mapping[str, _Kind] = {"isoflop": _isoflop, "ladder": _ladder, "random": _random, "envelope": _envelope}
NAMES = tuple(_KINDS)


def _design(name: str, params: Array, tokens: Array) -> Design:
    return Design(name, params, tokens, np.array([f"run-{i + 1}" for i in range(params.size)]))


def _best(form: Parametric, compute: Array) -> Array:
    return Frontier(*form.frontier_terms()).params(compute)


def _tokens(form: Parametric, params: Array) -> Array:
    """The tokens for which sizes are optimal."""
    line = Frontier(*form.frontier_terms())
    return line.tokens(line.compute(params=params))
