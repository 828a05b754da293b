"""The equation of a published law, fitted to one's own runs: any law of `calc.laws` that predicts a loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from calc import laws
from calc.errors import Refused
from calc.fitting import bootstrap, design
from calc.fitting.cells import UNITS, as_numbers
from calc.fitting.columns import KNOWN, listed, named
from calc.fitting.fit import Source, aim_of, check_options
from calc.fitting.forms import Array
from calc.fitting.minimum import HUBER, carry
from calc.fitting.runs import Runs, distinct, table, valid
from calc.fitting.solver import Evaluate
from calc.laws import Equation, Law
from calc.laws.uncertainty import Interval
from calc.workers.job import Progress

_INPUTS = {**KNOWN, "compute": KNOWN["flops"]}
_STARTS = 16
_STEP = 1e-6
_WEAK = 1e-12
"""Change of ln loss for one part in a hundred of a constant, below which the equation does not hold it."""
_RANK = 1e-7
"""Smallest against largest singular value of the scaled Jacobian: beyond it differences resolve nothing."""


@dataclass(frozen=True, slots=True)
class LawFit:
    """A published law's equation with constants of one's own.

    constants: those the equation depends on, None where the runs cannot tell one. objective, intervals, warnings,
    starts, agreeing: as in `calc.Fit`. theta: every constant of the law, those of the equation as fitted.
    inputs: what the equation takes, as read, each of shape (runs,).
    """

    law: str
    constants: Mapping[str, float | None]
    objective: float
    intervals: Mapping[str, Interval | None]
    optimum: None
    warnings: tuple[str, ...]
    equation: Equation
    source: str
    columns: Mapping[str, str]
    rows: int
    starts: int
    agreeing: int
    refits: int
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
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
    where: Sequence[str] = (),
    skip_invalid: bool = False,
    progress: Progress | None = None,
) -> LawFit:
    """Fit the equation of a published law that takes the most of what the runs have columns for.

    Columns are found by the names that `calc.fit` knows and, for other inputs, by the names of `calc.laws.VARIABLES`
    (unique_tokens, experts, bits_weights, ...). Every constant keeps the sign that it has in the law; starts are the
    published constants and others scattered about them. Intervals are drawn from the normal distribution that refits
    tend to. No optimum is given: `calc.laws` has each law's own rule for that.
    Errors: Refused for what `calc.fit` refuses, a law that predicts no loss, and fewer runs than constants.
    """
    entry = laws.find(law)
    check_options(refits, level)
    aim = aim_of(objective, delta)
    given = _read(runs, entry, columns or {}, where, skip_invalid)
    rows, notes = len(given.loss), given.notes
    names, signs, start = _moving(entry, given.equation, given.inputs)
    if rows < len(names):
        raise Refused("runs", f"at least {len(names)}, a constant of {law} each", rows)
    evaluate = partial(_residuals, entry, given, names, signs)

    best, agreeing = _best(evaluate, start, rows, aim.delta, progress)
    error, jacobian = (each[0] for each in evaluate(best[None]))
    unknown = _open(names, jacobian, notes)
    theta = dict(zip(names, (signs * np.exp(best)).tolist(), strict=True))
    intervals: dict[str, Interval | None] = {}
    if refits:
        drawn = signs * np.exp(_drawn(evaluate, best, given, aim.delta, refits, seed))
        told = {name: column for name, column in zip(names, drawn.T, strict=True) if name not in unknown}
        intervals = bootstrap.intervals(told, level)
    return LawFit(
        law=law,
        constants={name: None if name in unknown else value for name, value in theta.items()},
        objective=aim.value(error),
        intervals=intervals,
        optimum=None,
        warnings=(*notes, *design.uncertain(intervals)),
        equation=given.equation,
        source=entry.source,
        columns=given.columns,
        rows=rows,
        starts=_STARTS,
        agreeing=agreeing,
        refits=refits,
        inputs=given.inputs,
        theta={**vars(entry.k), **theta},
    )


def _best(evaluate: Evaluate, start: Array, runs: int, delta: float, progress: Progress | None) -> tuple[Array, int]:
    """The lowest optimum reached from about `start`, and how many starts came to it."""
    if progress is not None:
        progress("starts", 0, _STARTS)
    scatter = np.random.default_rng(0).normal(0, 0.15, (_STARTS, start.size))
    scatter[0] = 0
    solved = carry(evaluate, start + scatter, np.ones((1, runs)), delta)
    found = np.where(np.isfinite(solved.objective), solved.objective, np.inf)
    best = solved.moving[found.argmin()]
    near = found <= found.min() * (1 + 1e-9) + 1e-20
    same = (np.abs(solved.moving - best) <= 1e-4 * (1 + np.abs(best))).all(axis=1)
    return best, int((near & same).sum())


def _drawn(evaluate: Evaluate, best: Array, given: _Given, delta: float, refits: int, seed: int) -> Array:
    """Refits, shape (refits, constants); what is to be said of them goes to the notes."""
    groups, said = bootstrap.Groups.of(given.curve, len(given.loss), best.size)
    given.notes.extend(said)
    return bootstrap.normal(evaluate, best, delta, refits, seed, groups)


class _Given(NamedTuple):
    """Runs as the equation takes them. curve: the run of each row, where a column names it."""

    equation: Equation
    inputs: dict[str, Array]
    loss: Array
    curve: np.ndarray[Any, Any] | None
    columns: dict[str, str]
    notes: list[str]


def _read(runs: Source, law: Law, columns: Mapping[str, str], where: Sequence[str], skip: bool) -> _Given:
    if isinstance(runs, Runs):
        curve = {} if runs.curve is None else {"run": runs.curve}
        runs = {"params": runs.params, "tokens": runs.tokens, "loss": runs.loss, **curve}
    frame, name = table(runs, where)
    equations = [each for each in law.equations if each.gives == "loss"]
    if not equations:
        raise Refused("law", "a law that predicts a loss", law.name)
    takes = {what for each in equations for what in each.takes}
    there = {what: columns.get(what) or named(frame, _INPUTS.get(what, what)) or "" for what in (*takes, "loss")}
    usable = [each for each in equations if all(there[what] in frame.columns for what in (*each.takes, "loss"))]
    if not usable:
        ways = " or ".join(", ".join(each.takes) for each in equations)
        raise Refused(name, f"columns of loss and of {ways}", listed(frame))
    # Inputs that say more than compute alone come first where there are as many.
    equation = max(usable, key=lambda each: (len(each.takes), each.takes[0] not in ("compute", "compute_min")))
    chosen = {what: there[what] for what in (*equation.takes, "loss")}
    notes: list[str] = []
    numbers = {column: as_numbers(frame[column], UNITS.get(what, "")) for what, column in chosen.items()}
    run = columns.get("run") or named(frame, KNOWN["run"])
    if run is not None and run not in frame.columns:
        raise Refused(name, f"a column {run}", listed(frame))
    frame, numbers = valid(frame, numbers, name, skip, notes)
    frame, numbers = distinct(frame, numbers, run, notes)
    inputs = {what: numbers[chosen[what]] for what in equation.takes}
    curve = None if run is None else frame[run].astype(str).to_numpy()
    return _Given(equation, inputs, numbers[chosen["loss"]], curve, chosen, notes)


def _moving(law: Law, equation: Equation, inputs: Mapping[str, Array]) -> tuple[list[str], Array, Array]:
    """Names, signs and ln of the sizes of the constants that the equation depends on."""
    k = vars(law.k)

    def log_loss(**changed: float) -> Array:
        return np.log(equation.rule(SimpleNamespace(**{**k, **changed}), *inputs.values()))

    with np.errstate(all="ignore"):
        effects = {n: np.abs(log_loss(**{n: value * 1.01}) - log_loss()).max() for n, value in k.items() if value}
    names = [name for name, effect in effects.items() if not effect <= _WEAK]
    values = np.array([k[name] for name in names])
    return names, np.sign(values), np.log(np.abs(values))


def _residuals(law: Law, given: _Given, names: Sequence[str], signs: Array, moving: Array) -> tuple[Array, Array]:
    """As `calc.fitting.solver.residuals`, the derivatives by central differences."""
    published, log_loss = vars(law.k), np.log(given.loss)

    def error(row: Array) -> Array:
        own = dict(zip(names, signs * np.exp(row), strict=True))
        return np.log(given.equation.rule(SimpleNamespace(**{**published, **own}), *given.inputs.values())) - log_loss

    errors = np.stack([error(row) for row in moving])
    steps = _STEP * np.eye(len(names))
    slopes = [[(error(row + step) - error(row - step)) / (2 * _STEP) for step in steps] for row in moving]
    return errors, np.array(slopes)


def _open(names: Sequence[str], jacobian: Array, notes: list[str]) -> set[str]:
    """Constants that can move, alone or together, and change no prediction; `notes` then say so."""
    size = np.sqrt((jacobian**2).mean(axis=1))
    found = {name for name, effect in zip(names, size, strict=True) if effect < 1e-8}
    there = [i for i, name in enumerate(names) if name not in found]
    _, singular, directions = np.linalg.svd((jacobian[there] / size[there, None]).T, full_matrices=False)
    for strength, direction in zip(singular, directions, strict=True):
        if strength < _RANK * singular[0]:
            found |= {names[i] for i, part in zip(there, direction, strict=True) if abs(part) > 1e-3}
    if found:
        notes.append(f"these runs do not determine {', '.join(sorted(found))}: they can move and change no prediction")
    return found
