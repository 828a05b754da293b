"""Inverse questions: which size makes a quantity reach a target, or is the largest that stays within a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from pydantic import ValidationError

from calc.ask import registry
from calc.ask.solution import Candidate, NoSolution, Solution
from calc.blocks.attention import head_sizes
from calc.blocks.build import build
from calc.errors import Refused
from calc.sizes import Size, exact_div
from calc.spec import Attention, ModelSpec
from calc.spec.fields import MAX_LAYERS, MAX_SIZE
from calc.spec.load import Load
from calc.spec.resizing import sizes_of, with_sizes
from calc.spec.run import LOAD_SIZES, PLAN_SIZES, Run, exact_run
from calc.trace.op import leaves
from calc.units import binary

_WIDTHS = ("d_ff", "n_heads", "n_kv_heads", "d_expert", "d_shared")
_TRIES = 4096
_FINE = 2**42
"""Parts of one in which a root is found: 2e-13, where sizes begin at 1."""
_CLOSE = 1e-6
"""Part of a value by which a column of floats may be off before it is not relied on; sums of floats are far nearer."""


@dataclass(frozen=True, slots=True)
class _Problem:
    """quantity(x) as a function of one size from 1 to limit, others held fixed or scaled along with it.

    step: sizes that are no multiple of it are not allowed.
    """

    spec: ModelSpec
    quantity: registry.Quantity
    query: Run
    symbol: str
    limit: int
    scaled: Mapping[str, int]
    step: int

    def place(self, x: Size) -> dict[str, Size]:
        """Every size that moves, at x. Errors: ArithmeticError for an int at which a ratio is not whole."""
        if not self.scaled:
            return {self.symbol: x}
        return {name: exact_div(value * x, self.scaled[self.symbol]) for name, value in self.scaled.items()}

    def value(self, x: Size) -> Size:
        """The quantity at x, exact. A Fraction may stand where no model could be built, an int may not."""
        placed = self.place(x)
        load = {name: placed.pop(name) for name in LOAD_SIZES if name in placed}
        return registry.total(self.quantity.compute(with_sizes(self.spec, placed), self.query.changed(**load)))

    def candidate(self, x: int) -> Candidate:
        """The allowed size x."""
        return Candidate(self.place(x), self.value(x))

    def allowed(self, x: int) -> bool:
        """Whether a model with whole sizes at x can be built."""
        if not 1 <= x <= self.limit:
            return False
        try:
            placed = {name: size for name, size in self.place(x).items() if name not in LOAD_SIZES}
            changed = with_sizes(self.spec, placed).model_copy(update={"schedule": None})
            ModelSpec.model_validate(changed.model_dump())
        except (Refused, ValidationError, ArithmeticError):
            return False
        return True

    def next_allowed(self, start: int, direction: int) -> int | None:
        """The nearest allowed size from `start` on, upwards (1) or downwards (-1)."""
        first = direction * -(-direction * start // self.step) * self.step
        walk = range(first, first + direction * self.step * _TRIES, direction * self.step)
        found = next(filter(self.allowed, walk), None)
        if found is None and 1 <= walk[-1] <= self.limit:
            # Sizes that must divide another, as heads do, can lie further apart than a walk reaches.
            beyond = (x for x in _divisors(sizes_of(self.spec).values()) if (x - walk[-1]) * direction > 0)
            found = next(filter(self.allowed, sorted(beyond, reverse=direction < 0)), None)
        return found

    def text(self, value: Size) -> str:
        """A value with its unit, every digit of it; bytes also as people say them."""
        digits = f"{int(value):,}" if value == int(value) else f"{float(value):,.3f}"
        return f"{digits} {self.quantity.unit}" + f", {binary(int(value))}" * (self.quantity.unit == "bytes")


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
    problem = _problem(spec, quantity, symbol, keep_ratios, exact_run(run, **words))
    grid = _grid(problem.limit)
    values = _values(problem, grid, target)
    if min(values) == max(values):
        raise Refused("--for", f"a size that {quantity} of {spec.name} depends on", symbol)
    rising = values[-1] > values[0]
    if budget:
        best, root = _within(problem, target, grid, values, rising)
        return Solution(quantity, symbol, target, True, rising, root, (problem.candidate(best),))
    roots = dict.fromkeys(_root(problem, target, grid, values, last) for last in (True, False))
    if None in roots:
        least, most = (_with_place(problem, grid, values, end) for end in (min(values), max(values)))
        raise NoSolution(
            f"{quantity} of {spec.name} stays between {least} and {most}: {problem.text(target)} is not reached"
        )
    # A quantity with a minimum has a root on either side, and sizes that can be built may lie near one alone.
    found = {root: _nearest(problem, target, root) for root in roots if root is not None}

    def far(root: float) -> tuple[float, float]:
        best = next(iter(found[root]), None)
        return (math.inf, 0.0) if best is None else (abs(best.value - target), abs(best.sizes[symbol] - root))

    root = min(found, key=far)
    return Solution(quantity, symbol, target, False, rising, root, found[root])


def _within(
    problem: _Problem, target: float, grid: list[int], values: list[Size], rising: bool
) -> tuple[int, float | None]:
    """The last whole size that a budget allows, and the root beside it."""
    period = _period(problem) if rising else 1
    best = _extreme(problem, target, grid, values, rising, period)
    if period > 1:
        grid, values = [best, best + 1], [problem.value(best), problem.value(best + 1)]
    return best, _root(problem, target, grid, values, last=rising)


def _of_plan(
    spec: ModelSpec, entry: registry.Quantity, target: float, symbol: str, budget: bool, query: Run
) -> Solution:
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


def _problem(spec: ModelSpec, quantity: str, symbol: str, keep_ratios: bool, query: Run) -> _Problem:
    known = sizes_of(spec)
    entry = registry.find(quantity)
    loads = [name for name in LOAD_SIZES if name in entry.uses]
    if symbol not in (*known, *loads, "n_layers"):
        raise Refused("--for", f"one of {', '.join([*known, *loads])}", symbol)
    scaled: dict[str, int] = {}
    step = 1
    if keep_ratios:
        if symbol != "d_model":
            raise Refused("--keep-ratios", "--for d_model", symbol)
        scaled = {n: v for n, v in known.items() if n == "d_model" or n.startswith(_WIDTHS)}
        # The ratios hold exactly in whole numbers only at multiples of this.
        step = scaled["d_model"] // math.gcd(*scaled.values())
    limit = MAX_LAYERS if symbol.startswith("n_layers") else MAX_SIZE
    return _Problem(spec, entry, query, symbol, limit, scaled, step)


def _grid(limit: int) -> list[int]:
    """Whole sizes from 1 to `limit`: all of the first 66, then 3 % apart."""
    grid = [1]
    while grid[-1] < limit:
        grid.append(min(max(grid[-1] + 1, grid[-1] * 103 // 100), limit))
    return grid


def _values(problem: _Problem, grid: Sequence[int], target: float) -> list[Size]:
    """The quantity at every size of `grid`: read once as a column of floats, exact where those cannot be told from the
    target, and at both ends. Exact everywhere where the column does not hold there, or where it does not move.
    """
    column = _column(problem, grid)
    if column is not None and max(column) - min(column) > _CLOSE * max(column):
        unsure = {0, len(grid) - 1, *(i for i, value in enumerate(column) if abs(value - target) <= _CLOSE * target)}
        exact = {i: problem.value(Fraction(grid[i])) for i in unsure}
        if all(abs(column[i] - value) <= _CLOSE * value for i, value in exact.items()):
            return [exact.get(i, value) for i, value in enumerate(column)]
    return [problem.value(Fraction(x)) for x in grid]


def _column(problem: _Problem, grid: Sequence[int]) -> list[float] | None:
    """The quantity at all of `grid` in one reading; None where it is not read in columns."""
    import numpy as np

    try:
        with np.errstate(all="raise"):
            found = np.asarray(problem.value(np.array(grid, dtype=float)), dtype=float)
    except (Refused, ArithmeticError, TypeError, ValueError):
        return None
    return found.tolist() if found.shape == (len(grid),) and np.isfinite(found).all() else None


def _with_place(problem: _Problem, grid: Sequence[int], values: Sequence[Size], value: Size) -> str:
    """One of `values` as text, with the first size that has it."""
    at = grid[values.index(value)]
    return f"{problem.text(problem.value(Fraction(at)))} ({problem.symbol}={at:,})"


def _turn(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest whole number above `low` where `holds`: false at `low`, true at `high`, turning once between."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _root(
    problem: _Problem, target: float, grid: Sequence[int], values: Sequence[Size], last: bool = True
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

    whole = _turn(lambda n: arrived(Fraction(n)), low, high)
    # Whole sizes first: a flat part, as past a window, begins at one.
    if problem.value(Fraction(whole)) == target:
        return float(whole)
    return _turn(lambda n: arrived(Fraction(n, _FINE)), (whole - 1) * _FINE, whole * _FINE) / _FINE


def _nearest(problem: _Problem, target: float, root: float) -> tuple[Candidate, ...]:
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


def _period(problem: _Problem) -> int:
    """Tokens after which a cache has as many complete entries more and as little waiting for the next; else 1.

    Errors: Refused where entries stand for numbers of tokens that fall together too rarely to be searched.
    """
    if problem.symbol not in ("seq", "context"):
        return 1
    caches = (leaf.op.cache for leaf in leaves(build(problem.spec, Load(decode=True))))
    period = math.lcm(*(cache.stride for cache in caches if cache is not None and cache.stride is not None))
    if period > _TRIES:
        raise Refused("--for", f"another size, unless entries are complete together within {_TRIES} tokens", period)
    return period


def _last_within(problem: _Problem, target: float, period: int) -> int:
    """The largest number of tokens within the budget, 0 where none is, of a cache that shrinks now and then.

    Tokens wait for their entry, and take more than it does when it is complete. At a multiple of `period` none wait, so
    that no later number takes less: what fits ends before the first multiple that does not.
    """

    def beyond(n: int) -> bool:
        return n > 0 and problem.value(n * period) > target

    most = problem.limit // period
    last = most if not beyond(most) else _turn(beyond, 0, most) - 1
    stretch = range(min((last + 1) * period - 1, problem.limit), max(last * period, 1) - 1, -1)
    return next((n for n in stretch if problem.value(n) <= target), 0)


def _extreme(
    problem: _Problem, target: float, grid: Sequence[int], values: Sequence[Size], rising: bool, period: int
) -> int:
    """The largest allowed size within the budget; the smallest, where the quantity falls as the size grows."""
    if period > 1 and 0 < (found := _last_within(problem, target, period)) < problem.limit:
        return found
    fits = [i for i, value in enumerate(values) if value <= target]
    if not fits:
        least = _with_place(problem, grid, values, min(values))
        raise NoSolution(f"no {problem.symbol} fits: the least it comes to is {least}")
    if rising and len(fits) == len(values):
        most = _with_place(problem, grid, values, max(values))
        raise NoSolution(f"every {problem.symbol} up to {problem.limit:,} fits: the most it comes to is {most}")

    def within(n: int) -> bool:
        return problem.value(Fraction(n)) <= target

    i = fits[-1 if rising else 0]
    if rising:
        start = grid[i] if grid[i] == problem.limit else _turn(lambda n: not within(n), grid[i], grid[i + 1]) - 1
    else:
        start = grid[i] if i == 0 else _turn(within, grid[i - 1], grid[i])
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


def _divisors(numbers: Iterable[int]) -> set[int]:
    """All whole numbers that divide one of `numbers`."""
    small = {(n, d) for n in set(numbers) for d in range(1, math.isqrt(n) + 1) if n % d == 0}
    return {d for _, d in small} | {n // d for n, d in small}
