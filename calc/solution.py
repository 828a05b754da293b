"""Inverse questions: which size makes a quantity reach a target, or is the largest that stays within a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic import ValidationError

from calc.errors import Refused
from calc.quantities import registry
from calc.query import LOADS, Query
from calc.reading import sizes_of, with_sizes
from calc.sizes import Size
from calc.spec import ModelSpec
from calc.spec.fields import MAX_LAYERS, MAX_SIZE

_WIDTHS = ("d_ff", "n_heads", "n_kv_heads", "d_expert", "d_shared")
_TRIES = 4096


class NoSolution(ArithmeticError):
    """No size within bounds reaches the target."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Allowed whole sizes, by symbol name, and the exact value of the quantity there."""

    sizes: Mapping[str, int]
    value: int


@dataclass(frozen=True, slots=True)
class Solution:
    """root: the real number at which the quantity equals the target; None where it never does within bounds.
    candidates: for a target the nearest allowed sizes, nearest first; for a budget the one extreme that fits."""

    quantity: str
    symbol: str
    target: int | float
    budget: bool
    root: float | None
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class _Problem:
    """quantity(x) as a function of one size, others held fixed or scaled along with it."""

    spec: ModelSpec
    compute: Callable[[ModelSpec, Query], registry.Breakdown]
    options: Mapping[str, Any]
    symbol: str
    scaled: Mapping[str, int]
    step: int

    def place(self, x: Size) -> dict[str, Size]:
        """Every size that moves, at x."""
        if not self.scaled:
            return {self.symbol: x}
        base = self.scaled[self.symbol]
        if isinstance(x, int):
            return {name: value * x // base for name, value in self.scaled.items()}
        return {name: value * x / base for name, value in self.scaled.items()}

    def value(self, x: Size) -> Size:
        """The quantity at x; exact for an int."""
        placed = self.place(x)
        load = {name: placed.pop(name) for name in LOADS if name in placed}
        return registry.total(self.compute(with_sizes(self.spec, placed), replace(Query(**self.options), **load)))

    def allowed(self, x: int) -> bool:
        """Whether a model with whole sizes at x can be built."""
        if x < 1 or x % self.step:
            return False
        placed = {name: size for name, size in self.place(x).items() if name not in LOADS}
        try:
            changed = with_sizes(self.spec, placed).model_copy(update={"schedule": None})
            ModelSpec.model_validate(changed.model_dump())
        except (Refused, ValidationError, ArithmeticError):
            return False
        return True


def solve(
    spec: ModelSpec,
    quantity: str,
    target: float,
    symbol: str,
    *,
    budget: bool = False,
    keep_ratios: bool = False,
    **options: Any,
) -> Solution:
    """The size `symbol` at which `quantity` of `spec` equals `target`, every other size held fixed.

    budget: find the largest allowed whole size whose value is at most `target` (the smallest, where the quantity falls
        as the size grows). keep_ratios: with symbol d_model, scale d_ff, experts and heads along with it.
    The root is bracketed on the quantity itself, not solved from its formula, so minima and windows are no obstacle.
    Errors: Refused for a symbol that is no size here or does not change the quantity; NoSolution where nothing fits.
    """
    problem = _problem(spec, quantity, symbol, keep_ratios, options)
    limit = float(MAX_LAYERS if symbol.startswith("n_layers") else MAX_SIZE)
    grid, values = _scan(problem, limit)
    if values.max() == values.min():
        raise Refused("--for", f"a size that {quantity} of {spec.name} depends on", symbol)
    rising = bool(values[-1] > values[0])
    root = _root(problem, grid, values, target)
    if budget:
        best = _extreme(problem, target, root, rising, limit, values)
        return Solution(quantity, symbol, target, True, root, (best,))
    if root is None:
        raise NoSolution(
            f"{quantity} of {spec.name} stays between {values.min():,.4g} and {values.max():,.4g} "
            f"for {symbol} from 1 to {limit:,.0f}: {target:,.4g} is not reached"
        )
    near = [
        x for x in (_next(problem, math.floor(root), -1, limit), _next(problem, math.floor(root) + 1, 1, limit)) if x
    ]
    found = [Candidate(problem.place(x), problem.value(x)) for x in near]
    found.sort(key=lambda candidate: abs(candidate.value - target))
    return Solution(quantity, symbol, target, False, root, tuple(found))


def _problem(spec: ModelSpec, quantity: str, symbol: str, keep_ratios: bool, options: Mapping[str, Any]) -> _Problem:
    known = sizes_of(spec)
    loads = [name for name in LOADS if name in registry.find(quantity).uses]
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
    return _Problem(spec, registry.find(quantity).compute, dict(options), symbol, scaled, step)


def _scan(problem: _Problem, limit: float) -> tuple[Any, Any]:
    """The quantity on a geometric grid of the size, all in one reading."""
    import numpy

    grid = numpy.geomspace(1e-3, limit, 400)
    return grid, numpy.broadcast_to(numpy.asarray(problem.value(grid), dtype=float), grid.shape)


def _root(problem: _Problem, grid: Any, values: Any, target: float) -> float | None:
    """The largest real size at which the quantity crosses the target, to 1e-12 relative."""
    from scipy.optimize import brentq

    above = values >= target
    crossings = (above[1:] != above[:-1]).nonzero()[0]
    if not len(crossings):
        return None
    low, high = grid[crossings[-1]], grid[crossings[-1] + 1]
    crossing: Any = brentq(lambda x: float(problem.value(x)) - target, low, high, xtol=1e-12 * high)
    return float(crossing)


def _next(problem: _Problem, start: int, direction: int, limit: float) -> int | None:
    """The nearest allowed whole size from `start` on."""
    if problem.step > 1:
        start = start // problem.step * problem.step if direction < 0 else -(-start // problem.step) * problem.step
    for x in _walk(start, direction * problem.step):
        if not 1 <= x <= limit:
            return None
        if problem.allowed(x):
            return x
    return None


def _walk(start: int, stride: int) -> Iterator[int]:
    return (start + i * stride for i in range(_TRIES))


def _extreme(
    problem: _Problem, target: float, root: float | None, rising: bool, limit: float, values: Any
) -> Candidate:
    """The largest allowed size within the budget; the smallest, where the quantity falls as the size grows."""
    if root is None:
        if values.min() > target:
            raise NoSolution(f"no {problem.symbol} fits: the least it comes to is {values.min():,.4g}")
        raise NoSolution(f"every {problem.symbol} up to {limit:,.0f} fits: the most it comes to is {values.max():,.4g}")
    # One more whole number than the root's own, since the float root may lie a hair on either side of an integer.
    direction = -1 if rising else 1
    start = math.floor(root) + 1 if rising else max(math.ceil(root) - 1, 1)
    reach = partial(_next, problem, direction=direction, limit=limit)
    x = reach(start)
    while x is not None and problem.value(x) > target:
        x = reach(x + direction)
    if x is None:
        raise NoSolution(f"no whole {problem.symbol} that this model allows fits {target:,.4g}")
    return Candidate(problem.place(x), problem.value(x))
