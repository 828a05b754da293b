"""What a law's own uncertainty leaves open of any number that is worked out from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice

from calc.errors import Refused
from calc.laws.uncertainty import Interval, drawn, middle
from calc.optimum.search import Problem
from calc.workers.job import Progress, one_by_one

Numbers = Callable[[Problem], Mapping[str, float | None]]
"""A problem -> numbers by name; infinite or None where a draw has none."""
_FEW = 5
"""Every so many draws are taken where each takes a search: a fifth of a thousand tells a band well enough."""
LEVEL = 0.95


def bands(problem: Problem, numbers: Numbers, progress: Progress | None = None) -> dict[str, Interval]:
    """The middle 95 % of each number over the draws of the law's constants; empty for a law without draws.

    A question that a draw cannot answer, such as a loss below its floor, counts as an infinite answer.
    """
    known = drawn(problem.law)
    if not known:
        return {}
    searched = not problem.plain
    every = list(islice(known, 0, None, _FEW if searched else 1))
    problem = replace(problem, costs=problem.costs.tabulated())
    rows = []
    for constants in one_by_one(f"draws of {problem.law.name}", every, progress):
        rows.append(_of_draw(replace(problem, constants=constants), numbers))
    found: dict[str, Interval] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        column = [math.inf if (value := row.get(name)) is None else value for row in rows]
        low, high = middle(column, LEVEL)
        if low < high * (1 - 1e-9):  # what is given has no band, but for the last bits of a number
            found[name] = Interval(LEVEL, low, high)
    return found


def source(problem: Problem) -> str:
    """Where a band is from, or why there is none; of how many draws, where not of all."""
    if problem.plain or not drawn(problem.law):
        return problem.law.uncertainty
    return f"{problem.law.uncertainty}; every {_FEW}th of them searched anew"


def _of_draw(problem: Problem, numbers: Numbers) -> Mapping[str, float | None]:
    try:
        return numbers(problem)
    except (Refused, OverflowError, ZeroDivisionError, ArithmeticError):
        return {}
