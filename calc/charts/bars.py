"""Bars that are stacked by part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calc.charts.vega import STEP, Chart, Rows, around, channel, chart, colour, layer, names, tooltip


def stacked(rows: Rows, label: str, part: str, value: str, axis: dict[str, Any], order: Sequence[str]) -> Chart:
    """Horizontal bars, one for each `label` in the order of the rows, stacked by `part` in the given order.

    rows: also hold `shown`, the value as the tooltip says it.
    """
    bars = list(dict.fromkeys(row[label] for row in rows))
    here = {row[part] for row in rows}
    parts = [name for name in order if name in here]
    placed = [{**row, "place": parts.index(row[part])} for row in rows]
    body = layer(
        placed,
        "bar",
        y=names(label, bars),
        x=channel(value, "quantitative", aggregate="sum", axis=axis),
        color=colour(part, parts),
        order=channel("place", "quantitative"),
        tooltip=tooltip(label, part, shown=value),
    )
    return chart(body, height=STEP * len(bars) + around(len(parts)))


def columns(
    rows: Rows, x: str, part: str, value: str, axis: dict[str, Any], order: Sequence[str], most: float | None = None
) -> Chart:
    """Upright bars in the order of the rows, stacked by `part` in the given order. most: the axis' end."""
    here = {row[part] for row in rows}
    parts = [name for name in order if name in here]
    placed = [{**row, "place": parts.index(row[part])} for row in rows]
    bars = list(dict.fromkeys(row[x] for row in rows))
    body = layer(
        placed,
        "bar",
        x=channel(x, "ordinal", sort=bars, title=None, axis={"labelAngle": 0, "labelOverlap": True}),
        y=channel(value, "quantitative", aggregate="sum", axis=axis, scale={} if most is None else {"domainMax": most}),
        color=colour(part, parts),
        order=channel("place", "quantitative"),
        tooltip=tooltip(x, part, shown=value),
    )
    return chart(body, height=320)
