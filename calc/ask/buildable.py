"""Sizes that can be built: the nearest to a root, and the last that a budget allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from calc.ask.problem import TRIES, Problem
from calc.ask.roots import turning_point, with_place
from calc.ask.solution import Candidate, NoSolution
from calc.blocks.build import build
from calc.errors import Refused
from calc.sizes import Size
from calc.spec.load import Load
from calc.trace.part import leaves


def nearest(problem: Problem, target: float, root: float) -> tuple[Candidate, ...]:
    """The two allowed sizes near the root whose values are nearest to the target, nearest first."""
    start = round(root)
    found = [start] if problem.allowed(start) else []
    for direction in (-1, 1):
        # Two on either side: where allowed sizes lie apart, both of the nearest may lie on one.
        x = problem.next_allowed(start + direction, direction)
        if x is not None:
            found += [x, *filter(None, [problem.next_allowed(x + direction, direction)])]
    candidates = {x: problem.candidate(x) for x in found}
    best = sorted(found, key=lambda x: (abs(candidates[x].value - target), abs(x - root)))
    return tuple(candidates[x] for x in best[:2])


def period_of(problem: Problem) -> int:
    """Tokens after which a cache has as many complete entries more and as little waiting for the next; else 1.

    Errors: Refused where entries stand for numbers of tokens that fall together too rarely to be searched.
    """
    if problem.symbol not in ("seq", "context"):
        return 1
    caches = (leaf.op.cache for leaf in leaves(build(problem.spec, Load(decode=True, seq=problem.spec.shortest))))
    period = math.lcm(*(cache.stride for cache in caches if cache is not None and cache.stride is not None))
    if period > TRIES:
        raise Refused("--for", f"another size, unless entries are complete together within {TRIES} tokens", period)
    return period


def _last_within(problem: Problem, target: float, period: int) -> int:
    """The largest number of tokens within the budget, 0 where none is, of a cache that shrinks now and then.

    Tokens wait for their entry, and take more than it does when it is complete. At a multiple of `period` none wait, so
    that no later number takes less: what fits ends before the first multiple that does not.
    """

    def beyond(n: int) -> bool:
        return n > 0 and problem.value(n * period) > target

    most = problem.limit // period
    last = most if not beyond(most) else turning_point(beyond, 0, most) - 1
    stretch = range(min((last + 1) * period - 1, problem.limit), max(last * period, 1) - 1, -1)
    return next((n for n in stretch if problem.value(n) <= target), 0)


def extreme(
    problem: Problem, target: float, grid: Sequence[int], values: Sequence[Size], rising: bool, period: int
) -> int:
    """The largest allowed size within the budget; the smallest, where the quantity falls as the size grows."""
    if period > 1 and 0 < (found := _last_within(problem, target, period)) < problem.limit:
        return found
    fits = [i for i, value in enumerate(values) if value <= target]
    if not fits:
        least = with_place(problem, grid, values, min(values))
        raise NoSolution(f"no {problem.symbol} fits: the least it comes to is {least}")
    if rising and len(fits) == len(values):
        most = with_place(problem, grid, values, max(values))
        raise NoSolution(f"every {problem.symbol} up to {problem.limit:,} fits: the most it comes to is {most}")

    def within(n: int) -> bool:
        return problem.value(Fraction(n)) <= target

    i = fits[-1 if rising else 0]
    if rising:
        start = (
            grid[i] if grid[i] == problem.limit else turning_point(lambda n: not within(n), grid[i], grid[i + 1]) - 1
        )
    else:
        start = grid[i] if i == 0 else turning_point(within, grid[i - 1], grid[i])
    inward = -1 if rising else 1
    x = problem.next_allowed(start, inward)
    while x is not None and problem.value(x) > target:
        x = problem.next_allowed(x + inward, inward)
    if x is None:
        raise NoSolution(f"no whole {problem.symbol} that this model allows fits {problem.text(target)}")
    # Rounding up, as in experts' capacity, lets a value dip below the target again.
    while (further := problem.next_allowed(x - inward, -inward)) is not None and problem.value(further) <= target:
        x = further
    return x
