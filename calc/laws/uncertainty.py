"""What a law's own uncertainty leaves open: its numbers over bootstrapped constants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any, NamedTuple

from calc.laws.base import Exponent, Law
from calc.reading.files import read_text

_QUANTILES = 1_000
DRAWS = Path(__file__).parents[1] / "data" / "laws"


class Interval(NamedTuple):
    """The middle `level` of what bootstrapped constants give."""

    level: float
    low: float
    high: float


def interval(law: Law, number: Callable[[Any], float], level: float = 0.95) -> Interval | None:
    """Percentiles of `number`, a function of the constants, over the law's draws; None where it has none.

    Between draws the percentile is interpolated, as numpy does by default. An end may be infinite.
    """
    known = drawn(law)
    return Interval(level, *middle((number(constants) for constants in known), level)) if known else None


def middle(values: Iterable[float], level: float) -> tuple[float, float]:
    """The ends of the middle `level` of some numbers."""
    ordered = sorted(values)
    tail = (1 - level) / 2
    return _percentile(ordered, tail), _percentile(ordered, 1 - tail)


def drawn(law: Law) -> list[SimpleNamespace]:
    """Constants as a law's own uncertainty leaves them open; none where nothing is known of it."""
    if law.draws is not None:
        return list(draws(law.draws))
    return [] if law.exponent is None else list(_turned(law.k, law.exponent))


def _turned(k: Any, of: Exponent) -> Iterator[SimpleNamespace]:
    """Power laws of other exponents, each half of them normal, through the same N at the centre of the budgets."""
    normal = NormalDist()
    edge = normal.inv_cdf((1 + of.share) / 2)
    for i in range(_QUANTILES):
        z = normal.inv_cdf((i + 0.5) / _QUANTILES) / edge
        a = k.a + z * (of.high - k.a if z > 0 else k.a - of.low)
        n = k.n * of.centre ** (k.a - a)
        yield SimpleNamespace(**{**vars(k), "n": n, "a": a, "d": 1 / (6 * n), "b": 1 - a})


def draws(name: str) -> Iterator[SimpleNamespace]:
    """The constants of each draw of a file in calc/data/laws, as attributes."""
    columns, rows = _read(name)
    return (SimpleNamespace(**dict(zip(columns, row, strict=True))) for row in rows)


def _percentile(values: list[float], share: float) -> float:
    place = share * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    if values[below] == values[above]:
        return values[below]
    return values[below] + (place - below) * (values[above] - values[below])


@cache
def _read(name: str) -> tuple[list[str], list[list[float]]]:
    lines = [line for line in read_text(DRAWS / name).splitlines() if not line.startswith("#")]
    return lines[0].split(","), [[float(cell) for cell in line.split(",")] for line in lines[1:]]
