"""Inverse questions: which size makes a quantity reach a target, or is the largest that stays within a budget."""

from __future__ import annotations

import math
from typing import Any

from calc.ask import registry
from calc.ask.buildable import extreme, nearest, period_of
from calc.ask.problem import Problem, problem_of
from calc.ask.quantity import Quantity
from calc.ask.roots import grid_of, root_of, values_on, with_place
from calc.ask.solution import Candidate, NoSolution, Solution
from calc.blocks.attention_inputs import head_sizes
from calc.errors import Refused
from calc.sizes import Size
from calc.spec import Attention, ModelSpec
from calc.spec.resizing import with_sizes
from calc.spec.run import LOAD_SIZES, PLAN_SIZES, Run, exact_run


def solve(
    spec: ModelSpec,
    quantity: str,
    target: float,
    symbol: str,
    run: Run | None = None,
    *,
    budget: bool = False,
    keep_ratios: bool = False,
    **words: Any,
) -> Solution:
    """The size `symbol` at which `quantity` of `spec` equals `target`, every other size held fixed.

    budget: find the largest allowed whole size whose value is at most `target` (the smallest, where the quantity falls
        as the size grows). keep_ratios: with symbol d_model, scale d_ff, experts and heads along with it.
    run, words: as for `estimate`.
    The root is bracketed on the quantity itself, in exact fractions, not solved from its formula, so minima, windows
    and rounding are no obstacle. Where the quantity stays at the target, the root is where it arrives there.
    Errors: Refused for a target that is not above 0 and finite, and for a symbol that is no size here or does not
    change the quantity, and as for `estimate`; NoSolution where the target is not reached, where nothing fits or,
    with a size that costs more as it grows, everything does.
    """
    if not 0 < target < math.inf:
        raise Refused(quantity, "a finite value above 0", target)
    if symbol in PLAN_SIZES:
        return _of_plan(spec, registry.find(quantity), target, symbol, budget, exact_run(run, **words))
    problem = problem_of(spec, quantity, symbol, keep_ratios, exact_run(run, **words))
    grid = grid_of(problem.limit)
    values = values_on(problem, grid, target)
    if min(values) == max(values):
        raise Refused("--for", f"a size that {quantity} of {spec.name} depends on", symbol)
    rising = values[-1] > values[0]
    if budget:
        best, root = _within(problem, target, grid, values, rising)
        return Solution(quantity, symbol, target, True, rising, root, (problem.candidate(best),))
    roots = dict.fromkeys(root_of(problem, target, grid, values, last) for last in (True, False))
    if None in roots:
        least, most = (with_place(problem, grid, values, end) for end in (min(values), max(values)))
        raise NoSolution(
            f"{quantity} of {spec.name} stays between {least} and {most}: {problem.text(target)} is not reached"
        )
    # A quantity with a minimum has a root on either side, and sizes that can be built may lie near one alone.
    found = {root: nearest(problem, target, root) for root in roots if root is not None}

    def far(root: float) -> tuple[float, float]:
        best = next(iter(found[root]), None)
        return (math.inf, 0.0) if best is None else (abs(best.value - target), abs(best.sizes[symbol] - root))

    root = min(found, key=far)
    return Solution(quantity, symbol, target, False, rising, root, found[root])


def _within(
    problem: Problem, target: float, grid: list[int], values: list[Size], rising: bool
) -> tuple[int, float | None]:
    """The last whole size that a budget allows, and the root beside it."""
    period = period_of(problem) if rising else 1
    best = extreme(problem, target, grid, values, rising, period)
    if period > 1:
        grid, values = [best, best + 1], [problem.value(best), problem.value(best + 1)]
    return best, root_of(problem, target, grid, values, last=rising)


def _of_plan(spec: ModelSpec, entry: Quantity, target: float, symbol: str, budget: bool, query: Run) -> Solution:
    """The size of a plan that fits. Errors: as `solve`."""
    from calc.ask.solve_run import solve_plan  # memory is long to load

    if symbol not in entry.uses:
        raise Refused("--for", f"a size that {entry.name} of {spec.name} depends on", symbol)
    if not budget:
        raise Refused("QUANTITY=VALUE", f"a budget, {entry.name}<=VALUE, for the whole numbers of {symbol}", "=")
    return solve_plan(spec, entry, target, symbol, query)


def moved_head_widths(spec: ModelSpec, candidate: Candidate) -> dict[str, int]:
    """By symbol name, the d_head of layers that leave it to d_model / n_heads, where the candidate moves it."""
    own = {name: size for name, size in candidate.sizes.items() if name not in (*LOAD_SIZES, *PLAN_SIZES)}
    changed = with_sizes(spec, own)
    moved: dict[str, int] = {}
    for before, after in zip(spec.layers, changed.layers, strict=True):
        if isinstance(before.mixer, Attention) and isinstance(after.mixer, Attention) and after.mixer.d_head is None:
            d_head = head_sizes(after.mixer, changed.d_model)[2]
            if d_head != head_sizes(before.mixer, spec.d_model)[2]:
                moved[f"d_head_{after.name}"] = d_head
    whole = len(moved) == len(spec.layers) and len(set(moved.values())) == 1
    return {"d_head": next(iter(moved.values()))} if whole else moved
