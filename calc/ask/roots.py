"""Where a quantity arrives at a target: a grid of sizes, the quantity on it, and the root between two of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise

from calc.ask.problem import Problem
from calc.errors import Refused
from calc.sizes import Size

FINE = 2**42
"""Parts of one in which a root is found: 2e-13, where sizes begin at 1."""
CLOSE = 1e-6
"""Part of a value by which a column of floats may be off before it is not relied on; sums of floats are far nearer."""


def grid_of(limit: int) -> list[int]:
    """Whole sizes from 1 to `limit`: all of the first 66, then 3 % apart."""
    grid = [1]
    while grid[-1] < limit:
        grid.append(min(max(grid[-1] + 1, grid[-1] * 103 // 100), limit))
    return grid


def values_on(problem: Problem, grid: Sequence[int], target: float) -> list[Size]:
    """The quantity at every size of `grid`: read once as a column of floats, exact where those cannot be told from the
    target, and at both ends. Exact everywhere where the column does not hold there, or where it does not move.
    """
    column = _column(problem, grid)
    if column is not None and max(column) - min(column) > CLOSE * max(column):
        unsure = {0, len(grid) - 1, *(i for i, value in enumerate(column) if abs(value - target) <= CLOSE * target)}
        exact = {i: problem.value(Fraction(grid[i])) for i in unsure}
        if all(abs(column[i] - value) <= CLOSE * value for i, value in exact.items()):
            return [exact.get(i, value) for i, value in enumerate(column)]
    return [problem.value(Fraction(x)) for x in grid]


def _column(problem: Problem, grid: Sequence[int]) -> list[float] | None:
    """The quantity at all of `grid` in one reading; None where it is not read in columns."""
    import numpy as np

    try:
        with np.errstate(all="raise"):
            found = np.asarray(problem.value(np.array(grid, dtype=float)), dtype=float)
    except (Refused, ArithmeticError, TypeError, ValueError):
        return None
    return found.tolist() if found.shape == (len(grid),) and np.isfinite(found).all() else None


def with_place(problem: Problem, grid: Sequence[int], values: Sequence[Size], value: Size) -> str:
    """One of `values` as text, with the first size that has it."""
    at = grid[values.index(value)]
    return f"{problem.text(problem.value(Fraction(at)))} ({problem.symbol}={at:,})"


def turning_point(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest whole number above `low` where `holds`: false at `low`, true at `high`, turning once between."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def root_of(
    problem: Problem, target: float, grid: Sequence[int], values: Sequence[Size], last: bool = True
) -> float | None:
    """The last (or first) real size at which the quantity arrives at the target; None where it never does."""
    points = list(zip(grid, values, strict=True))
    cells = [(a, b, p < q) for (a, p), (b, q) in pairwise(points) if p < target <= q or p > target >= q]
    if values[0] == target and not (last and cells):
        return float(grid[0])
    if not cells:
        return None
    low, high, rising = cells[-1 if last else 0]

    def arrived(x: Fraction) -> bool:
        value = problem.value(x)
        return value >= target if rising else value <= target

    whole = turning_point(lambda n: arrived(Fraction(n)), low, high)
    # Whole sizes first: a flat part, as past a window, begins at one.
    if problem.value(Fraction(whole)) == target:
        return float(whole)
    return turning_point(lambda n: arrived(Fraction(n, FINE)), (whole - 1) * FINE, whole * FINE) / FINE
