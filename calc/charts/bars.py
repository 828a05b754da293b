"""Bars that are stacked by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from calc.charts.colours import text_colour
from calc.charts.vega import NARROW, STEP, Chart, Rows, around, channel, chart, colour, layer, names, tooltip

NAMES = 10
"""The most bars that have their names below them."""
LETTER = 0.013
"""Share of the longest bar that a letter of a name on it takes, at the least."""


def stacked(
    rows: Rows,
    label: str,
    part: str,
    value: str,
    axis: dict[str, Any],
    order: Sequence[str],
    unnamed: Sequence[str] = (),
) -> Chart:
    """Horizontal bars, one for each `label` in the order of the rows, stacked by `part` in the given order.

    rows: also hold `shown`, the value as the tooltip says it. A part that is wide enough has its name on it, but on a
    phone, and but for those that are `unnamed`.
    """
    bars = list(dict.fromkeys(row[label] for row in rows))
    here = {row[part] for row in rows}
    parts = [name for name in order if name in here]
    placed = [{**row, "place": parts.index(row[part])} for row in rows]
    place = {"y": names(label, bars), "order": channel("place", "quantitative")}
    x = channel(value, "quantitative", aggregate="sum", axis=axis)
    shown, longest = tooltip(label, part, shown=value), _longest(rows, label, value)
    body = layer(placed, "bar", **place, x=x, color=colour(part, parts), tooltip=shown)
    named = layer(
        [{**row, "word": _word(row, part, value, longest, unnamed), "ink": text_colour(row[part])} for row in placed],
        {"type": "text", "fontSize": 11},
        **place,
        x={**x, "stack": "zero", "bandPosition": 0.5},
        detail=channel(part, "nominal"),
        color=channel("ink", "nominal", scale=None),
        text={**channel("word", "nominal"), "condition": {"test": f"width < {NARROW}", "value": ""}},
        tooltip=shown,
    )
    return chart(body, named, height=STEP * len(bars) + around(len(parts)))


def _longest(rows: Rows, label: str, value: str) -> float:
    """Of the longest bar."""
    bars: dict[Any, float] = {}
    for row in rows:
        bars[row[label]] = bars.get(row[label], 0.0) + row[value]
    return max(bars.values(), default=0.0)


def _word(row: Mapping[str, Any], part: str, value: str, longest: float, unnamed: Sequence[str]) -> str:
    """The name of a part that has room for it. The others stand in the layer too: it is stacked as the bars are."""
    name = str(row[part])
    return name.replace("_", " ") if name not in unnamed and row[value] >= LETTER * len(name) * longest else ""


def columns(
    rows: Rows, x: str, part: str, value: str, axis: dict[str, Any], order: Sequence[str], most: float | None = None
) -> Chart:
    """Upright bars in the order of the rows, stacked by `part` in the given order; of many every so manieth has its
    name below it. most: the axis' end."""
    here = {row[part] for row in rows}
    parts = [name for name in order if name in here]
    placed = [{**row, "place": parts.index(row[part])} for row in rows]
    bars = list(dict.fromkeys(row[x] for row in rows))
    below = {"labelAngle": 0, "labelOverlap": True, "values": bars[:: ceil(len(bars) / NAMES)]}
    body = layer(
        placed,
        "bar",
        x=channel(x, "ordinal", sort=bars, title=None, axis=below),
        y=channel(value, "quantitative", aggregate="sum", axis=axis, scale={} if most is None else {"domainMax": most}),
        color=colour(part, parts),
        order=channel("place", "quantitative"),
        tooltip=tooltip(x, part, shown=value),
    )
    return chart(body, height=320)
