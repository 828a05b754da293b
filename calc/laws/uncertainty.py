"""What a law's own uncertainty leaves open: its numbers over bootstrapped constants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from calc.laws.base import Law
from calc.reading.files import read_text

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
    if law.draws is None:
        return None
    return Interval(level, *middle((number(constants) for constants in draws(law.draws)), level))


def middle(values: Iterable[float], level: float) -> tuple[float, float]:
    """The ends of the middle `level` of some numbers."""
    ordered = sorted(values)
    tail = (1 - level) / 2
    return _percentile(ordered, tail), _percentile(ordered, 1 - tail)


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
