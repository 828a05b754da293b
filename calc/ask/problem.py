"""A quantity as a function of one size: what `solve` searches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from calc.ask import registry
from calc.ask.quantity import Quantity, sum_of
from calc.ask.solution import Candidate
from calc.errors import Refused
from calc.sizes import Size, exact_div
from calc.spec import ModelSpec
from calc.spec.fields import MAX_LAYERS, MAX_SIZE
from calc.spec.resizing import sizes_of, with_sizes
from calc.spec.run import LOAD_SIZES, Run
from calc.units import binary

TRIES = 4096
"""Sizes that a walk looks at before it gives up."""
_WIDTHS = ("d_ff", "n_heads", "n_kv_heads", "d_expert", "d_shared")


@dataclass(frozen=True, slots=True)
class Problem:
    """quantity(x) as a function of one size from 1 to limit, others held fixed or scaled along with it.

    step: sizes that are no multiple of it are not allowed.
    """

    spec: ModelSpec
    quantity: Quantity
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
        return sum_of(self.quantity.compute(with_sizes(self.spec, placed), self.query.changed(**load)))

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
        walk = range(first, first + direction * self.step * TRIES, direction * self.step)
        found = next(filter(self.allowed, walk), None)
        if found is None and 1 <= walk[-1] <= self.limit:
            # Sizes that must divide another, as heads do, can lie further apart than a walk reaches.
            beyond = (x for x in divisors(sizes_of(self.spec).values()) if (x - walk[-1]) * direction > 0)
            found = next(filter(self.allowed, sorted(beyond, reverse=direction < 0)), None)
        return found

    def text(self, value: Size) -> str:
        """A value with its unit, every digit of it; bytes also as people say them."""
        digits = f"{int(value):,}" if value == int(value) else f"{float(value):,.3f}"
        return f"{digits} {self.quantity.unit}" + f", {binary(int(value))}" * (self.quantity.unit == "bytes")


def problem_of(spec: ModelSpec, quantity: str, symbol: str, keep_ratios: bool, query: Run) -> Problem:
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
    return Problem(spec, entry, query, symbol, limit, scaled, step)


def divisors(numbers: Iterable[int]) -> set[int]:
    """All whole numbers that divide one of `numbers`."""
    small = {(n, d) for n in set(numbers) for d in range(1, math.isqrt(n) + 1) if n % d == 0}
    return {d for _, d in small} | {n // d for n, d in small}
