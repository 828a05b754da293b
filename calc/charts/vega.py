"""What charts are made of: plain Vega-Lite, whose checks in altair would take longer than all that is computed.

A chart is a dict: `calc.charts.saving` saves it, pages hand it to the browser, and `altair.Chart.from_dict` shows it in
a notebook. Fields are named as in the rows; `shown` is the text of a tooltip, with its unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any

from calc.charts import colours

Chart = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]
STEP = 30
"""Pixels that one bar and the gap to the next take."""
AROUND, LEGEND = 80, 20
"""Pixels of an axis with its title, and of each line of a legend."""
LETTER, SYMBOL = 7, 30
"""Pixels of a letter of a legend, and of what stands beside a name in it."""
NARROW = 400
"""Pixels below which a chart is one on a phone."""


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


def colour(field: str, values: Iterable[str], *, series: bool = False) -> dict[str, Any]:
    """The colour of each name, its own or (series) one of a row of them, with a legend below that is as wide as the
    chart."""
    shown = list(dict.fromkeys(values))
    pool = colours.SERIES
    of_name = [pool[i % len(pool)] if series else colours.colour(name) for i, name in enumerate(shown)]
    wide = LETTER * max((len(name) for name in shown), default=0) + SYMBOL
    whole = sum(LETTER * len(name) + SYMBOL for name in shown)
    legend = {
        "title": None,
        "orient": "bottom",
        "columns": {"expr": f"width > {whole} ? {max(len(shown), 1)} : max(1, floor(width / {wide}))"},
        "labelLimit": 260,
    }
    return channel(field, "nominal", scale={"domain": shown, "range": of_name}, legend=legend)


def tooltip(*fields: str, **titled: str) -> list[dict[str, Any]]:
    """What stands beside the pointer: fields by their names, and others by a title. All are shown as text."""
    named = {name: name for name in fields} | titled
    return [channel(name, "nominal", title=title) for name, title in named.items()]


def layer(rows: Rows, mark: str | dict[str, Any], **encoding: Any) -> Chart:
    """One layer of a chart."""
    return {"data": {"values": [dict(row) for row in rows]}, "mark": mark, "encoding": encoding}


def by_width(field: str, narrow: str) -> dict[str, Any]:
    """A text: of one field, or on a phone of another."""
    return channel(field, "nominal", condition={"test": f"width < {NARROW}", "value": {"expr": f"datum.{narrow}"}})


def around(names: int) -> int:
    """Pixels below the plot, which a chart's height holds too: its axis, and a legend of so many names on a phone."""
    return AROUND + LEGEND * ceil(names / 2)


def chart(*layers: Chart, height: int, title: str = "") -> Chart:
    """Layers in one frame, as wide as the page or the picture that shows it."""
    named = {"title": title} if title else {}
    return {"layer": list(layers), "height": height, **named}


def rule(axis: str, value: float, shown: str, title: str) -> Chart:
    """A dashed line at one value of `x` or `y`."""
    mark = {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 2, "color": colours.colour("line")}
    at = {axis: channel("at", "quantitative")}
    return layer([{"at": value, "shown": shown}], mark, **at, tooltip=tooltip(shown=title))
