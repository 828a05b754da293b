"""Charts as plain Vega-Lite: the same as altair makes, without its checks, which take longer than all that is computed.

A chart is a dict; `dashboard.frame.chart` draws and saves it. Fields are named as in the rows; the page gives `shown`,
the text of a tooltip, with its unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, log2
from typing import Any

from dashboard import colours

Chart = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]
STEP = 30
"""Pixels that one bar and the gap to the next take."""
AROUND, LEGEND = 80, 20
"""Pixels of an axis with its title, and of each line of a legend."""
NARROW = 400
"""Pixels below which a chart is one on a phone."""
MARKS = 8
"""The most marks of an axis of bytes."""
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
    return {"title": title, "labelExpr": f"replace(format(datum.value, '.3~s'), 'G', '{giga}')", "labelOverlap": True}


def sizes(title: str, most: float | None = None) -> dict[str, Any]:
    """An axis of bytes, with binary prefixes; with marks at round ones up to `most`, where the axis is linear."""
    axis = {"title": title, "labelExpr": _BINARY, "labelOverlap": True}
    if most is None:
        return axis
    step = 2 ** max(0, ceil(log2(max(most, 1) / MARKS)))
    return axis | {"values": [n * step for n in range(2 * MARKS) if n * step <= most]}


def tokens(title: str) -> dict[str, Any]:
    """An axis of numbers of tokens, with binary prefixes."""
    return {"title": title, "labelExpr": _TOKENS, "labelOverlap": True}


def channel(field: str, kind: str, **more: Any) -> dict[str, Any]:
    """One encoding. kind: quantitative, nominal, ordinal."""
    return {"field": field, "type": kind, **more}


def names(field: str, values: Iterable[str], **axis: Any) -> dict[str, Any]:
    """An axis of names in the order in which they come."""
    return channel(
        field,
        "nominal",
        sort=list(dict.fromkeys(values)),
        title=None,
        axis={"labelLimit": 160, "labelOverlap": False, **axis},
    )


def colour(field: str, values: Iterable[str], columns: int = 4, *, series: bool = False) -> dict[str, Any]:
    """The colour of each name, its own or (series) one of a row of them, with a legend of so many columns below; of
    half as many on a phone."""
    shown = list(dict.fromkeys(values))
    pool = colours.SERIES
    of_name = [pool[i % len(pool)] if series else colours.colour(name) for i, name in enumerate(shown)]
    fitting = {"expr": f"width < {NARROW} ? {max(1, columns // 2)} : {columns}"}
    legend = {"title": None, "orient": "bottom", "columns": fitting, "labelLimit": 260}
    return channel(field, "nominal", scale={"domain": shown, "range": of_name}, legend=legend)


def tooltip(*fields: str, **titled: str) -> list[dict[str, Any]]:
    """What stands beside the pointer: fields by their names, and others by a title. All are shown as text."""
    named = {name: name for name in fields} | titled
    return [channel(name, "nominal", title=title) for name, title in named.items()]


def layer(rows: Rows, mark: str | dict[str, Any], **encoding: Any) -> Chart:
    """One layer of a chart."""
    return {"data": {"values": [dict(row) for row in rows]}, "mark": mark, "encoding": encoding}


def around(names: int) -> int:
    """Pixels below the plot, which a chart's height holds too: its axis, and a legend of so many names on a phone."""
    return AROUND + LEGEND * ceil(names / 2)


def chart(*layers: Chart, height: int) -> Chart:
    """Layers in one frame, as wide as the page."""
    return {"layer": list(layers), "height": height}


def rule(axis: str, value: float, shown: str, title: str) -> Chart:
    """A dashed line at one value of `x` or `y`."""
    mark = {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 2, "color": colours.colour("line")}
    at = {axis: channel("at", "quantitative")}
    return layer([{"at": value, "shown": shown}], mark, **at, tooltip=tooltip(shown=title))


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
