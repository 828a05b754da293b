"""Measured times beside predicted ones: case by case, as errors, by component, and from commit to commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from calc.charts import axes, colours, vega
from calc.errors import printable
from calc.units import duration

MOST = 3000
"""Points of a chart."""
BAND = 0.1
"""Half width of the band around y = x."""
BOTH = ("predicted", "measured")


class Case(Protocol):
    """What is drawn of a case: its names, both its times in seconds, measured over predicted, and the error's size."""

    @property
    def case(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def commit(self) -> str: ...
    @property
    def predicted(self) -> float: ...
    @property
    def measured(self) -> float: ...
    @property
    def ratio(self) -> float: ...
    @property
    def error(self) -> float: ...


class Component(Protocol):
    """What is drawn of a component of a model: both its times in seconds."""

    @property
    def component(self) -> str: ...
    @property
    def predicted(self) -> float: ...
    @property
    def measured(self) -> float: ...


class Level(Protocol):
    """What is drawn of the cases of one kind at one commit: how many, and their times over those at the first."""

    @property
    def commit(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def cases(self) -> int: ...
    @property
    def ratio(self) -> float: ...


def scatter(cases: Sequence[Case], by_kind: bool = True) -> vega.Chart:
    """Measured over predicted seconds, both logarithmic, with y = x and a band around it; the first MOST cases.

    by_kind: groups are kinds of cases, which have colours of their own.
    """
    rows = _rows(cases[:MOST])
    low, high = axes.room([row[name] for row in rows for name in BOTH], 1.5)
    line = [{"predicted": x, "measured": x, "least": x * (1 - BAND), "most": x * (1 + BAND)} for x in (low, high)]
    x, y, least = (
        axes.log_channel(name, (low, high), title, "s")
        for name, title in (("predicted", "predicted"), ("measured", "measured"), ("least", "measured"))
    )
    grey = colours.colour("line")
    band = {"type": "area", "opacity": 0.2, "color": grey, "clip": True}
    equal = {"type": "line", "strokeDash": [5, 3], "color": grey, "strokeWidth": 1.5}
    points = vega.layer(
        rows,
        {"type": "point", "filled": True, "size": 70, "opacity": 0.8},
        x=x,
        y=y,
        color=_colour(rows, by_kind),
        shape=vega.channel("device", "nominal", legend=None),
        tooltip=vega.tooltip("case", "was predicted", "was measured", "off by", "device", "commit"),
    )
    return vega.chart(
        vega.layer(line, band, x=x, y=least, y2={"field": "most"}),
        vega.layer(line, equal, x=x, y=y),
        points,
        height=480,
    )


def errors(cases: Sequence[Case], by_kind: bool = True) -> vega.Chart:
    """How many cases took how much longer or shorter than predicted; what is beyond twice is in the last bar."""
    rows = _rows(cases)
    quarters = [-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1]
    axis = {"format": "+.0%", "values": quarters, "title": "measured / predicted - 1"}
    bars = vega.layer(
        [{"error": row["error"], "group": row["group"]} for row in rows],
        "bar",
        x=vega.channel("error", "quantitative", bin={"step": 0.05, "extent": [-1.0, 1.0]}, axis=axis),
        y={"aggregate": "count", "type": "quantitative", "axis": {"title": "cases", "tickMinStep": 1}},
        color=_colour(rows, by_kind),
    )
    return vega.chart(bars, height=300)


def components(parts: Sequence[Component]) -> vega.Chart:
    """Both times of each component, the largest first."""
    rows = [
        {"component": printable(part.component), "which": which, "seconds": value, "time": duration(value)}
        for part in sorted(parts, key=lambda part: -part.measured)
        for which, value in zip(BOTH, (part.predicted, part.measured), strict=True)
    ]
    time = {"title": "time", "labelExpr": axes.labels("s"), "tickCount": 6}
    bars = vega.layer(
        rows,
        "bar",
        x=vega.channel("seconds", "quantitative", axis=time),
        y=vega.names("component", [row["component"] for row in rows]),
        yOffset=vega.channel("which", "nominal", sort=list(BOTH)),
        color=vega.colour("which", BOTH),
        tooltip=vega.tooltip("component", "which", "time"),
    )
    return vega.chart(bars, height=36 * len(rows) // 2 + 110)


def levels(found: Sequence[Level]) -> vega.Chart:
    """Times of each kind of case at each commit, against those at the first one."""
    rows = [
        {
            "commit": printable(each.commit),
            "kind": printable(each.kind),
            "ratio": each.ratio,
            "cases": f"{each.cases:,}",
            "time": f"{each.ratio:.3f} ×",
        }
        for each in found
    ]
    order = list(dict.fromkeys(row["commit"] for row in rows))
    span = axes.room((*(row["ratio"] for row in rows), 1.0), 1.2)
    y = axes.log_channel("ratio", span, "relative time", "×")
    below = {"title": "commit, oldest first", "labelAngle": 0, "labelLimit": 160, "labelOverlap": True}
    lines = vega.layer(
        rows,
        {"type": "line", "point": True},
        x=vega.channel("commit", "nominal", sort=order, axis=below),
        y=y,
        color=vega.colour("kind", sorted({row["kind"] for row in rows})),
        tooltip=vega.tooltip("commit", "kind", "cases", "time"),
    )
    same = {"type": "rule", "strokeDash": [5, 3], "color": colours.colour("line")}
    return vega.chart(vega.layer([{"ratio": 1.0}], same, y=y), lines, height=340)


def _rows(cases: Sequence[Case]) -> list[dict[str, Any]]:
    return [
        {
            "predicted": each.predicted,
            "measured": each.measured,
            "error": min(max(each.ratio - 1, -1.0), 0.999),
            "was predicted": duration(each.predicted),
            "was measured": duration(each.measured),
            "off by": f"{each.error:.1%}",
            "case": printable(each.case),
            "group": printable(each.group),
            "device": each.device,
            "commit": printable(each.commit),
        }
        for each in cases
    ]


def _colour(rows: Sequence[dict[str, Any]], by_kind: bool) -> dict[str, Any]:
    return vega.colour("group", sorted({row["group"] for row in rows}), series=not by_kind)
