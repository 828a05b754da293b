"""Which size of a run keeps a quantity within a budget: GPUs of a kind, the ZeRO stage, micro-batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from calc.ask.quantity import Quantity, sum_of
from calc.ask.solution import Candidate, NoSolution, Solution
from calc.errors import Refused
from calc.spec import Attention, Mla, ModelSpec
from calc.spec.run import Run
from calc.units import binary

MOST = 2**20
"""The most ranks or pieces that are tried."""


def solve_plan(spec: ModelSpec, entry: Quantity, target: float, symbol: str, run: Run) -> Solution:
    """The smallest size `symbol` of the run whose value is within `target`, where the quantity falls as it grows; the
    largest, where it rises. Sizes that the model cannot be spread over are passed by.

    Errors: Refused where the quantity does not depend on it, or no size of it can be; NoSolution where nothing fits or,
    where it rises, everything does.
    """

    def value(x: int) -> int | None:
        """The quantity at x; None where the run cannot be."""
        try:
            return sum_of(entry.compute(spec, run.placed({symbol: x})))
        except Refused as refused:
            if refused.field == symbol:
                return None
            raise

    values = {x: found for x in _sizes(spec, symbol, run) if (found := value(x)) is not None}
    if not values:
        raise Refused("--for", f"a size that {spec.name} can be given", symbol)
    low, high = min(values), max(values)
    if min(values.values()) == max(values.values()):
        raise Refused("--for", f"a size that {entry.name} of {spec.name} depends on", symbol)
    rising = values[high] > values[low]
    fits = [x for x, found in values.items() if found <= target]
    if not fits:
        best = min(values, key=lambda x: (values[x], x))
        least = f"{values[best]:,} {entry.unit}, {binary(values[best])} ({symbol}={best:,})"
        raise NoSolution(f"no {symbol} fits: the least it comes to is {least}")
    if rising and len(fits) == len(values):
        worst = max(values, key=lambda x: values[x])
        most = f"{values[worst]:,} {entry.unit}, {binary(values[worst])} ({symbol}={worst:,})"
        raise NoSolution(f"every {symbol} up to {high:,} fits: the most it comes to is {most}")
    x = _refined(value, max(fits) if rising else min(fits), list(values), target, rising)
    return Solution(entry.name, symbol, target, True, rising, None, (Candidate({symbol: x}, value(x) or 0),))


def _sizes(spec: ModelSpec, symbol: str, run: Run) -> Iterable[int]:
    """Sizes to try: all there can be, or where there are too many, powers of two of the least step between them."""
    if symbol == "zero":
        return range(4)
    if symbol in ("pp", "interleave", "checkpoint_every") and isinstance(spec.n_layers, int):
        return range(1, spec.n_layers + 1)
    if symbol == "tp":
        mixers = [mixer for stack in spec.stacks for group in stack.layers for mixer in group.mixers]
        heads = [mixer.n_heads for mixer in mixers if isinstance(mixer, Attention | Mla)]
        return range(1, min(heads, default=1) + 1)
    step = 1
    if symbol in ("dp", "cp"):
        other = run.cp if symbol == "dp" else run.dp
        step = run.ep // math.gcd(run.ep, other)
    return [step * 2**i for i in range(MOST.bit_length()) if step * 2**i <= MOST]


def _refined(value: Callable[[int], int | None], x: int, tried: list[int], target: float, rising: bool) -> int:
    """Between x, which fits, and its neighbour among those tried, which does not: the last that fits."""
    i = tried.index(x) + (1 if rising else -1)
    if not 0 <= i < len(tried):
        return x
    step, other = max(tried[0], 1), tried[i]
    while abs(other - x) > step:
        middle = (x + other) // (2 * step) * step
        found = value(middle)
        x, other = (middle, other) if found is not None and found <= target else (x, middle)
    return x
