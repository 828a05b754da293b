"""The equation of a published law, fitted to one's own runs: any law of `calc.laws` that predicts a loss.

So are equations without published constants (`calc.fitting.templates`): Farseer's surface and Shukor's mixtures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from calc import laws
from calc.errors import Refused
from calc.fitting import bootstrap, design, mixtures
from calc.fitting.farseer import FARSEER
from calc.fitting.fit import Source, aim_of, check_options
from calc.fitting.forms import Array
from calc.fitting.holdout import HeldOut, Rows, rolling
from calc.fitting.law_doubts import strangers
from calc.fitting.law_runs import LawRuns, read_for
from calc.fitting.law_search import Found, found_constants, lowest, residuals, starts_of, starts_of_template
from calc.fitting.minimum import HUBER, Objective
from calc.fitting.solver import Evaluate, solve
from calc.fitting.templates import Template
from calc.fitting.valley import valley
from calc.laws import Equation, Law
from calc.laws.uncertainty import Interval
from calc.workers.job import Progress

_AGAIN = 200
"""Refits of an equation of nine constants and more: each is a search of its own."""
TEMPLATES = ("farseer", *mixtures.NAMES)
"""Names of the equations without published constants."""
_FAR = 700.0
"""Largest logarithm of a constant's size: the exponential of more is no number."""


@dataclass(frozen=True, slots=True)
class LawFit:
    """A published law's equation with constants of one's own.

    constants: those the equation depends on, None where the runs cannot tell one. objective, intervals, warnings,
    starts, agreeing, compute, held_out: as in `calc.Fit`. optimum: params, tokens, tokens_per_param and loss at
    `compute`, of Farseer's surface alone; of a mixture the shares of lowest loss at the largest run. formula: the loss
    as it is printed. theta: every constant of the law, those of the equation as fitted. inputs: what the equation
    takes, as read, each of shape (runs,).
    """

    law: str
    constants: Mapping[str, float | None]
    objective: float
    intervals: Mapping[str, Interval | None]
    optimum: Mapping[str, float] | None
    warnings: tuple[str, ...]
    equation: Equation
    formula: str
    source: str
    columns: Mapping[str, str]
    rows: int
    starts: int
    agreeing: int
    refits: int
    compute: float
    held_out: HeldOut | None
    inputs: Mapping[str, Array] = field(repr=False)
    theta: Mapping[str, float] = field(repr=False)

    def predict(self, **inputs: Any) -> Any:
        """The loss for what the equation takes: numbers, or arrays of one shape."""
        values = (np.asarray(inputs[name], dtype=np.float64) for name in self.equation.takes)
        return self.equation.rule(SimpleNamespace(**self.theta), *values)


def fit_law(
    runs: Source,
    law: str,
    *,
    objective: str = "huber",
    delta: float = HUBER,
    refits: int = 4000,
    level: float = 0.95,
    compute: float | None = None,
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
    where: Sequence[str] = (),
    skip_invalid: bool = False,
    mixture: Sequence[str] = (),
    progress: Progress | None = None,
) -> LawFit:
    """Fit the equation of a published law that takes the most of what the runs have columns for.

    law: of `calc.laws`; or farseer, whose optimum at `compute` FLOP (by default the runs' largest 6 N D) follows; or
    shukor and shukor-joint, with the columns of each domain's share as `mixture`.

    Columns are found by the names that `calc.fit` knows and, for other inputs, by the names of `calc.laws.VARIABLES`
    (unique_tokens, experts, bits_weights, ...). Every constant keeps the sign that it has in the law; starts are the
    published constants and others scattered about them, or what a fit of chinchilla's form says. Intervals are drawn
    from the normal distribution that refits tend to; those of farseer and shukor are of refits themselves, of which
    there are then at most 200. Of a published law no optimum is given: `calc.laws` has each law's own rule for that.
    Errors: Refused for what `calc.fit` refuses, a law that predicts no loss, and fewer runs than constants.
    """
    template = _template(law, mixture)
    entry = template.law if template else laws.find(law)
    check_options(refits, level)
    aim = aim_of(objective, delta)
    refits = min(refits, _AGAIN) if template else refits
    given = read_for(runs, entry, columns or {}, where, skip_invalid, template.shares if template else ())
    found = found_constants(template, entry, given, law, aim, progress)
    names, sets = found.names, _sets(found, given, aim.delta, refits, seed, progress, again=template is not None)
    theta = {**vars(entry.k), **dict(zip(names, sets[0].tolist(), strict=True))}
    columns_of = {name: column for name, column in zip(names, sets.T, strict=True) if name not in found.unknown}
    budget, optimum = _optimum(template, given, names, sets, compute)
    intervals = _intervals(columns_of | optimum, level) if refits else {}
    return LawFit(
        law=law,
        constants={name: None if name in found.unknown else theta[name] for name in names},
        objective=aim.value(found.error),
        intervals=intervals,
        optimum={name: float(column[0]) for name, column in optimum.items()} or None,
        warnings=(*given.notes, *strangers(given, theta), *design.uncertain(intervals)),
        equation=given.equation,
        formula=template.formula if template else str(entry.expression(given.equation)),
        source=entry.source,
        columns=given.columns,
        rows=len(given.loss),
        starts=found.starts,
        agreeing=found.agreeing,
        refits=refits,
        compute=budget,
        held_out=_held_out(template, entry, given, names, found.signs, aim),
        inputs=given.inputs,
        theta=theta,
    )


def _held_out(
    template: Template | None, law: Law, given: LawRuns, names: Sequence[str], signs: Array, aim: Objective
) -> HeldOut | None:
    """By rolling origin; None where the equation takes something else than N and D."""
    if given.six_nd is None:
        return None

    def fitted(rows: Rows, before: Array | None) -> Array:
        seen = given.where(rows)
        own = partial(residuals, law, seen, names, signs)
        if before is not None and template is None:
            return solve(own, before[None], np.ones((1, rows.size)), aim.delta, gain=1e-9).moving[0]
        begun = (starts_of(law, given) if template is None else starts_of_template(template, seen))[2]
        return lowest(own, begun, rows.size, aim.delta, None)[0]

    def errors(moving: Array, rows: Rows) -> Array:
        return residuals(law, given.where(rows), names, signs, moving[None])[0][0]

    return rolling(fitted, errors, given.six_nd, len(names))


def _optimum(
    template: Template | None, given: LawRuns, names: Sequence[str], sets: Array, compute: float | None
) -> tuple[float, dict[str, Array]]:
    """The FLOP that an optimum is for, and what is said of it for each set of constants, the fit's own first.

    Of a mixture its shares of lowest loss at the largest run; of a published law nothing.
    """
    if template is None or given.six_nd is None:
        return math.nan, {}
    at = int(given.six_nd.argmax())
    loss = partial(_loss_of, given.equation, names)
    if template.shares:
        sizes = float(given.inputs["params"][at]), float(given.inputs["tokens"][at])
        return float(given.six_nd[at]), mixtures.best_shares(loss, sets, sizes, template.shares)
    budget = float(compute or given.six_nd[at])
    found = valley(loss, sets, given.inputs["params"], budget)
    if np.isfinite(found["params"][0]):
        return budget, found
    given.notes.append(f"no size within a hundredfold of the runs' is optimal at {budget:.3g} FLOP")
    return budget, {}


def _template(law: str, mixture: Sequence[str]) -> Template | None:
    """The equation without published constants that goes by a name. Errors: Refused for shares that it has not."""
    if law in mixtures.NAMES:
        return mixtures.shukor(law, mixture)
    if mixture:
        raise Refused("--mixture", f"a law of mixtures beside it: {' or '.join(mixtures.NAMES)}", law)
    return FARSEER if law == "farseer" else None


def _loss_of(equation: Equation, names: Sequence[str], sets: Array, *inputs: Array) -> Array:
    """Losses of sets of constants, shape (sets, constants), for inputs that broadcast with (sets, points)."""
    own = {name: column[:, None] for name, column in zip(names, sets.T, strict=True)}
    with np.errstate(all="ignore"):  # a refit far off overflows; what follows is then no number and is not counted
        return equation.rule(SimpleNamespace(**own), *inputs)


def _intervals(sets: Mapping[str, Array], level: float) -> dict[str, Interval | None]:
    """Of what refits came to, which stand behind the fit's own."""
    return bootstrap.intervals({name: column[1:] for name, column in sets.items()}, level)


def _sets(
    found: Found, given: LawRuns, delta: float, refits: int, seed: int, progress: Progress | None, again: bool
) -> Array:
    """Constants of the fit and behind them those of its refits, shape (1 + refits, constants)."""
    drawn = _drawn(found.evaluate, found.best, given, delta, refits, seed, progress, again)
    # A constant that the runs do not bound runs away; beyond this it changes no prediction any more.
    return found.signs * np.exp(np.clip(np.vstack([found.best, drawn]), -_FAR, _FAR))


def _drawn(
    evaluate: Evaluate,
    best: Array,
    given: LawRuns,
    delta: float,
    refits: int,
    seed: int,
    progress: Progress | None,
    again: bool,
) -> Array:
    """Refits, shape (refits, constants); what is to be said of them goes to the notes.

    again: fit anew, where constants trade against each other too far for the normal distribution to be of use.
    """
    if not refits:
        return np.empty((0, best.size))
    groups, note = bootstrap.Groups.of(given.curve, len(given.loss), best.size)
    given.notes.extend(note)
    if again and len(given.loss) <= bootstrap.MOST_REFITTED:
        return bootstrap.weighted(evaluate, best, delta, refits, seed, progress, groups)
    return bootstrap.normal(evaluate, best, delta, refits, seed, groups)
