"""The search for the constants of a law that runs can tell: where it starts, what it lowers, and where it ends."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from calc.errors import Refused
from calc.fitting.forms import Array
from calc.fitting.law_doubts import check_designs
from calc.fitting.law_runs import LawRuns
from calc.fitting.minimum import Objective, carry
from calc.fitting.solver import Evaluate, Solved, solve
from calc.fitting.templates import Template
from calc.laws import Equation, Law
from calc.workers.job import Progress

_STARTS = 16
_ROUNDS = 25
_STEP = 1e-6
_WEAK = 1e-12
"""Change of ln loss for one part in a hundred of a constant, below which the equation does not hold it."""
_RANK = 1e-7
"""Smallest against largest singular value of the scaled Jacobian: beyond it differences resolve nothing."""


class Found(NamedTuple):
    """The constants of lowest objective. best: the logarithms of their sizes, signs: what these are multiplied with.
    error: of each run there. unknown: names of those that the runs cannot tell. starts, of which so many agree."""

    names: Sequence[str]
    signs: Array
    evaluate: Evaluate
    best: Array
    error: Array
    unknown: Collection[str]
    starts: int
    agreeing: int


def found_constants(
    template: Template | None, entry: Law, given: LawRuns, law: str, aim: Objective, progress: Progress | None
) -> Found:
    """From all starts. Errors: Refused for runs that cannot tell constants apart, and fewer than there are of those."""
    check_designs(template, given)
    names, signs, begun = starts_of(entry, given) if template is None else starts_of_template(template, given)
    if len(given.loss) < len(names):
        raise Refused("runs", f"at least {len(names)}, a constant of {law} each", len(given.loss))
    evaluate = partial(residuals, entry, given, names, signs)
    best, agreeing = lowest(evaluate, begun, len(given.loss), aim.delta, progress)
    error, jacobian = (each[0] for each in evaluate(best[None]))
    unknown = undetermined(names, jacobian, given.notes)
    if template and agreeing < 2:
        given.notes.append(f"only {agreeing} of {len(begun)} starts came to these constants: trust what they predict")
    return Found(names, signs, evaluate, best, error, unknown, len(begun), agreeing)


def starts_of(law: Law, given: LawRuns) -> tuple[list[str], Array, Array]:
    """Names and signs of the constants of a published law, and the ln of their sizes at every start."""
    names, signs, published = _moving(law, given.equation, given.inputs)
    begun = published + np.random.default_rng(0).normal(0, 0.15, (_STARTS, published.size))
    begun[0] = published
    return names, signs, begun


def starts_of_template(template: Template, given: LawRuns) -> tuple[list[str], Array, Array]:
    """As `starts_of`, of a template, whose starts follow from the runs.

    Errors: Refused for runs whose losses do not fall both with parameters and with tokens.
    """
    names = [each.name for each in template.law.constants]
    found = template.starts(given.inputs, given.loss)
    sizes = np.array([[each[name] for name in names] for each in found])
    if not (np.isfinite(sizes) & (sizes > 0)).all():
        raise Refused("runs", "losses that fall both with parameters and with tokens", "losses that do not")
    return names, np.ones(len(names)), np.log(sizes)


def residuals(law: Law, given: LawRuns, names: Sequence[str], signs: Array, moving: Array) -> tuple[Array, Array]:
    """As `calc.fitting.solver.residuals`, the derivatives by central differences."""
    published, log_loss = vars(law.k), np.log(given.loss)
    steps = np.concatenate([np.zeros((1, len(names))), _STEP * np.eye(len(names)), -_STEP * np.eye(len(names))])
    with np.errstate(all="ignore"):  # as in the solver: a wild trial step is not taken
        tried = signs * np.exp(moving[:, None] + steps)
        own = {name: tried[:, :, [i]] for i, name in enumerate(names)}
        loss = given.equation.rule(SimpleNamespace(**{**published, **own}), *given.inputs.values())
        error = np.log(loss) - log_loss
    above, below = np.split(error[:, 1:], 2, axis=1)
    return error[:, 0], (above - below) / (2 * _STEP)


def lowest(evaluate: Evaluate, start: Array, runs: int, delta: float, progress: Progress | None) -> tuple[Array, int]:
    """The lowest optimum reached from starts, shape (starts, constants), and how many came to it."""
    if progress is not None:
        progress("starts", 0, len(start))
    solved = carry(evaluate, start, np.ones((1, runs)), delta)
    if progress is not None:
        progress("starts", len(start), len(start))
    found = np.where(np.isfinite(solved.objective), solved.objective, np.inf)
    best = solved.moving[found.argmin()]
    for _ in range(_ROUNDS):  # down a valley along which constants trade against each other
        further = solve(evaluate, best[None], np.ones((1, runs)), delta)
        gained = 1 - further.objective[0] / max(found.min(), 1e-300)
        if not gained > 1e-9:
            break
        best, found = further.moving[0], np.append(found, further.objective)
        solved = Solved(np.vstack([solved.moving, further.moving]), found)
    near = found <= found.min() * (1 + 1e-9) + 1e-20
    same = (np.abs(solved.moving - best) <= 1e-4 * (1 + np.abs(best))).all(axis=1)
    return best, int((near & same).sum())


def undetermined(names: Sequence[str], jacobian: Array, notes: list[str]) -> set[str]:
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
