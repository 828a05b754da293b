"""`calc.fit`: the constants of a form of loss from training runs, with what is known of their uncertainty."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from calc import checks
from calc.errors import Refused
from calc.fitting import bootstrap, design, forms, majority, minimum, suspects
from calc.fitting.forms import Array, Form
from calc.fitting.holdout import HeldOut, held_out
from calc.fitting.minimum import HUBER, OBJECTIVES, Objective
from calc.fitting.optimum import optimum_at
from calc.fitting.runs import Runs, Upload, read
from calc.fitting.solver import Data, residuals
from calc.laws.uncertainty import Interval
from calc.workers.job import Progress
from calc.workers.workers import HERE, Workers

Source = str | Path | Upload | Mapping[str, Any] | Runs
"""A CSV in a file or in bytes, columns as arrays, or runs that have been read."""

MOST_REFITS = 50_000
"""More say nothing of an interval that fewer do not."""


@dataclass(frozen=True)
class Fit:
    """A form fitted to runs.

    constants: by the names of the form's source; None where the runs cannot tell one. objective: its value as
    `aim` says. intervals: of constants and of the optimum. optimum: params, tokens, tokens_per_param and loss at
    `compute` (6 N D), and the exponent of N in compute; None where the runs cannot tell. starts, agreeing: how many
    starts were tried and how many came to this optimum. theta: (ln A, alpha, ln B, beta, ln E, ln k). optima: of every
    refit, by the names of `optimum`, each of shape (refits,). refitted: theta of every refit, shape (refits, 6).
    level: share of the refits in each interval.
    """

    law: str
    constants: Mapping[str, float | None]
    objective: float
    intervals: Mapping[str, Interval | None]
    optimum: Mapping[str, float] | None
    warnings: tuple[str, ...]
    form: Form
    aim: Objective
    columns: Mapping[str, str]
    rows: int
    starts: int
    agreeing: int
    refits: int
    compute: float
    theta: Array = field(repr=False)
    runs: Runs = field(repr=False)
    optima: Mapping[str, Array] = field(default_factory=dict, repr=False)
    refitted: Array = field(default_factory=lambda: np.empty((0, 6)), repr=False)
    level: float = 0.95

    @cached_property
    def held_out(self) -> HeldOut | None:
        """The errors of fits to the runs before others, found when they are first asked for: they take as long as
        the rest. None where the runs are too few, or of too few sizes."""
        return held_out(self.form, self.runs, self.aim)

    def predict(self, params: Any, tokens: Any) -> Any:
        """The loss at N parameters and D tokens: numbers, or arrays that broadcast."""
        loss = self.form.loss(self.theta, np.asarray(params, np.float64), np.asarray(tokens, np.float64))
        return float(loss) if loss.ndim == 0 else loss


def fit(
    runs: Source,
    law: str = "chinchilla",
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
    skip_far: bool = False,
    best: bool = False,
    progress: Progress | None = None,
    workers: Workers = HERE,
) -> Fit:
    """Fit a form (chinchilla, equal-exponents, kaplan, free-k, compute) to runs.

    Where all runs have one number of tokens a parameter, N and D cannot be told apart: whatever the form, then
    E + K / C^gamma is fitted (`calc.fitting.forms.COMPUTE`), and a warning says so.

    objective: huber with its `delta`, lad or squares, always of ln predicted - ln observed. refits: bootstrap samples
    for the intervals, which hold the middle `level` of them; 0 for none. compute: FLOP at which the optimum is given,
    by default the largest 6 N D of the runs. columns, where, skip_invalid, best: see `calc.fitting.runs.read`.
    skip_far: leave out runs that lie far off a first fit (`calc.fitting.suspects`). workers: who refits.
    Errors: Refused for what `read` refuses, unknown words, and fewer runs than constants.
    """
    form, aim = forms.find(law), aim_of(objective, delta)
    check_options(refits, level)
    if compute is not None and not 0 < compute < math.inf:
        raise Refused("compute", "a positive number of FLOP", compute)
    given = read(runs, columns, where, skip_invalid, best=best)
    if (note := design.ladder(given)) and form is not forms.COMPUTE:
        form, given = forms.COMPUTE, replace(given, notes=(*given.notes, f"{note}: E + K / C^gamma is fitted instead"))
    design.refuse_too_few(form, given)
    if skip_far:
        given = _without_far(form, aim, given)
    return _fitted(form, aim, given, refits, level, compute, seed, progress, workers)


def tournament(runs: Source, **options: Any) -> list[Fit]:
    """Every form fitted to the same runs, the one first whose held-out error (`calc.fitting.holdout`) is smallest.

    `calc.fitting.average` says which of the others the runs cannot tell from it, and their common optimum.
    options: those of `fit`, but for the law. A form with more constants than there are runs is left out.
    Errors: as `fit`; Refused where no form can be fitted.
    """
    reading = {name: options.pop(name) for name in ("columns", "where", "skip_invalid", "best") if name in options}
    given = read(runs, **reading)
    fitted, refusal = [], None
    for form in (forms.COMPUTE,) if design.ladder(given) else forms.FORMS:
        try:
            fitted.append(fit(given, form.name, **options))
        except Refused as error:
            if error.field != "runs":
                raise
            refusal = error
    if not fitted and refusal is not None:
        raise refusal
    return sorted(fitted, key=lambda each: each.held_out.rms if each.held_out else math.inf)


def check_options(refits: int, level: float) -> None:
    """Errors: Refused for a number of refits below 0 or above `MOST_REFITS`, and a level that is no share."""
    checks.size("refits", refits, least=0)
    if refits > MOST_REFITS:
        raise Refused("refits", f"at most {MOST_REFITS:,}", refits)
    if not 0 < level < 1:
        raise Refused("level", "a share between 0 and 1", level)


def aim_of(objective: str, delta: float) -> Objective:
    """The objective of a name. Errors: Refused for another name, and for a delta that is not above 0."""
    checks.word("objective", objective, tuple(OBJECTIVES))
    if not 0 < delta < math.inf:
        raise Refused("delta", "a positive number", delta)
    if objective != "huber" and delta != HUBER:
        raise Refused("delta", f"--objective huber beside it: {objective} has none", delta)
    return minimum.huber(delta) if objective == "huber" else OBJECTIVES[objective]


def _without_far(form: Form, aim: Objective, runs: Runs) -> Runs:
    """The runs but for those far off a first fit, which a note names."""
    found = suspects.far_runs(runs, _agreed(form, aim, runs, predicting(form, aim, runs)))
    if not found:
        return runs
    left = runs.where(np.delete(np.arange(len(runs)), [each.at for each in found]))
    design.refuse_too_few(form, left)
    names = ", ".join(runs.named(each.at) for each in found[:8])
    note = f"{len(found):,} of {len(runs):,} runs are left out, far off a first fit: {names}{', …' * (len(found) > 8)}"
    return replace(left, notes=(*left.notes, note))


def theta_of(runs: Runs) -> Array:
    """`theta` of `fit` to the same runs, and nothing else that it says. Errors: as there."""
    return _theta(forms.COMPUTE if design.ladder(runs) else forms.find("chinchilla"), minimum.huber(), runs)


def predicting(form: Form, aim: Objective, runs: Runs) -> majority.Predict:
    """The loss that the form's best constants predict. Errors: Refused for fewer runs than constants."""
    return partial(form.loss, _theta(form, aim, runs))


def _theta(form: Form, aim: Objective, runs: Runs) -> Array:
    design.refuse_too_few(form, runs)
    data = _data(form, runs)
    return data.plain(form.full(minimum.best(form, data, aim).moving))


def _agreed(form: Form, aim: Objective, runs: Runs, predict: majority.Predict) -> majority.Predict:
    return majority.agreed_by_most(runs, predict, lambda places: predicting(form, aim, runs.where(places)))


def _data(form: Form, runs: Runs) -> Data:
    return Data.of(*form.axes(runs.params, runs.tokens), runs.loss)


def _fitted(
    form: Form,
    aim: Objective,
    runs: Runs,
    refits: int,
    level: float,
    compute: float | None,
    seed: int,
    progress: Progress | None,
    workers: Workers,
) -> Fit:
    data = _data(form, runs)
    best = minimum.best(form, data, aim)
    theta = data.plain(form.full(best.moving))
    budget = float(compute or runs.six_nd.max())
    unknown, open_questions = _open(form, runs, data, best.moving, theta)
    no_optimum = bool(open_questions) or form.of_compute
    found: dict[str, Interval | None] = {}
    optima: dict[str, Array] = {}
    notes: list[str] = []
    many = np.empty((0, 6))
    if refits:
        groups, notes = bootstrap.Groups.of(runs.curve, len(runs), best.moving.size)
        many = bootstrap.refits(form, best.moving, data, aim.delta, refits, seed, progress, groups, workers)
        optima = {} if no_optimum else _optimum_columns(many, budget)
        published = {name: column for name, column in form.publish(many).items() if name not in unknown}
        found = bootstrap.intervals(published | optima, level)
    return Fit(
        law=form.name,
        constants=_constants(form, theta, unknown),
        objective=best.objective,
        intervals=found,
        optimum=None if no_optimum else {n: float(v[0]) for n, v in _optimum_columns(theta[None], budget).items()},
        warnings=(
            *runs.notes,
            *open_questions,
            *notes,
            *suspects.sentence(runs, suspects.far_runs(runs, _agreed(form, aim, runs, partial(form.loss, theta)))),
            *suspects.apart(runs, partial(form.loss, theta)),
            *design.rests_on_few(form, runs, best.agreeing, best.starts, unknown),
            *design.uncertain(found),
        ),
        form=form,
        aim=aim,
        columns=runs.columns or {},
        rows=len(runs),
        starts=best.starts,
        agreeing=best.agreeing,
        refits=refits,
        compute=budget,
        theta=theta,
        runs=runs,
        optima=optima,
        refitted=many,
        level=level,
    )


def _constants(form: Form, theta: Array, unknown: set[str]) -> dict[str, float | None]:
    """The constants by their published names; None for those that the runs cannot tell."""
    values = form.publish(theta).items()
    return {name: float(value) if name not in unknown and np.isfinite(value) else None for name, value in values}


def _open(form: Form, runs: Runs, data: Data, moving: Array, theta: Array) -> tuple[set[str], list[str]]:
    """Names of the constants that the runs cannot tell, and why."""
    found = design.confounded(form, runs)
    by_design = {form.names[place] for each in found for place in each.places}
    found += design.degenerate(form, theta, residuals(form, data, moving[None])[1][0], by_design)
    return {form.names[place] for each in found for place in each.places}, [each.why for each in found]


def _optimum_columns(theta: Array, compute: float) -> dict[str, Array]:
    """What is said of the optimum, each of shape (sets of constants,)."""
    best = optimum_at(theta, compute)
    return {
        "params": best.params,
        "tokens": best.tokens,
        "tokens_per_param": best.tokens / best.params,
        "loss": best.loss,
        "exponent": best.exponent,
    }
