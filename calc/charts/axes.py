"""Axes: of plain numbers, bytes and tokens, and logarithmic ones with few ticks and labels with their unit."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from calc.charts.vega import channel

NARROW = 4.0
"""Last over first below which ticks are in even steps."""
WIDE = 2.5
"""Decades from which on powers of ten are ticks enough."""
MARKS = 8
"""The most marks of an axis of bytes."""
TICKS = 6
"""About how many ticks are asked for: round steps make at most ten of them."""
_BINARY = (
    "datum.value >= pow(2, 40) ? format(datum.value / pow(2, 40), ',.3~r') + ' TiB' : "
    "datum.value >= pow(2, 30) ? format(datum.value / pow(2, 30), ',.3~r') + ' GiB' : "
    "datum.value >= pow(2, 20) ? format(datum.value / pow(2, 20), ',.3~r') + ' MiB' : "
    "datum.value > 0 ? format(datum.value / 1024, ',.3~r') + ' KiB' : '0'"
)
_TOKENS = (
    "datum.value >= 1048576 ? format(datum.value / 1048576, ',') + 'Mi' : "
    "datum.value >= 1024 ? format(datum.value / 1024, ',') + 'Ki' : datum.value"
)


def numbers(title: str, giga: str = "G") -> dict[str, Any]:
    """An axis of plain numbers with SI prefixes. giga: the letter for 10^9; parameters say B."""
    return {
        "title": title,
        "labelExpr": f"replace(format(datum.value, '.3~s'), 'G', '{giga}')",
        "labelOverlap": True,
        "tickCount": TICKS,
    }


def sizes(title: str, most: float | None = None) -> dict[str, Any]:
    """An axis of bytes, with binary prefixes; with marks at round ones up to `most`, where the axis is linear."""
    axis = {"title": title, "labelExpr": _BINARY, "labelOverlap": True, "tickCount": TICKS}
    if most is None:
        return axis
    step = 2 ** max(0, math.ceil(math.log2(max(most, 1) / MARKS)))
    return axis | {"values": [n * step for n in range(2 * MARKS) if n * step <= most]}


def token_axis(title: str) -> dict[str, Any]:
    """An axis of numbers of tokens, with binary prefixes."""
    return {"title": title, "labelExpr": _TOKENS, "labelOverlap": True, "tickCount": TICKS}


def log_channel(name: str, span: tuple[float, float], title: str, unit: str = "") -> dict[str, Any]:
    """A logarithmic encoding of the field `name`, from the first to the second of `span`."""
    scale = {"type": "log", "domain": list(span), "nice": False}
    axis = {"title": title, "values": ticks(*span), "labelExpr": labels(unit)}
    return channel(name, "quantitative", scale=scale, axis=axis)


def room(values: Iterable[float], factor: float = 2.0) -> tuple[float, float]:
    """From the smallest to the largest of the positive values, with room for a factor beyond each."""
    found = [value for value in values if value > 0]
    return (min(found) / factor, max(found) * factor) if found else (0.1, 10.0)


def ticks(low: float, high: float) -> list[float]:
    """Powers of ten from `low` to `high`; where there are few, twice and five times them too, or even steps."""
    if high / low < NARROW:
        step = 10.0 ** math.floor(math.log10((high - low) / 2))
        step *= math.ceil((high - low) / step / 6)
        return [step * count for count in range(math.ceil(low / step), math.floor(high / step) + 1)]
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1,) if math.log10(high / low) > WIDE else (1, 2, 5)
    every = max(1, (last - first) // 8)
    found = [step * 10.0**power for power in range(first, last + 1, every) for step in steps]
    return [value for value in found if low <= value <= high]


def labels(unit: str) -> str:
    """A Vega expression: the value of a tick with its SI prefix and unit; plain where the unit is ×."""
    if unit == "×":
        return "format(datum.value, '.3~r') + ' ×'"
    return f"replace(format(datum.value, '~s'), /(-?[0-9.]+)/, '$1 ') + '{unit}'"
