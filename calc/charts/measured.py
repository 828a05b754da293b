"""Measured times beside predicted ones: case by case, as errors, and by component."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log2
from typing import Any, Protocol

from calc.charts import axes, colours, vega
from calc.errors import printable
from calc.units import duration

MOST = 3000
"""Points of a chart."""
BAND = 0.1
"""Half width of the band around equal times."""
RATIO = "measured / predicted"
FARTHEST, BINS = 4.0, 8
"""The ratio, or one over it, at which the outer bars begin; bars of a doubling."""
BOTH = ("predicted", "measured")


class Case(Protocol):
    """What is drawn of a case: its names, both its times in seconds, and measured over predicted."""

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


class Component(Protocol):
    """What is drawn of a component of a model: both its times in seconds."""

    @property
    def component(self) -> str: ...
    @property
    def predicted(self) -> float: ...
    @property
    def measured(self) -> float: ...


def ratios(cases: Sequence[Case], by_kind: bool = True, own: str = "") -> vega.Chart:
    """Measured over predicted seconds of the first MOST cases, over what was predicted; both logarithmic.

    by_kind: groups are kinds of cases, which have colours of their own. own: the device that is called this machine;
    others are called by their names, and each has a shape of its own.
    """
    rows = [
        {**row, "machine": "this machine" if row["device"] == own else row["device"]} for row in _rows(cases[:MOST])
    ]
    low, high = axes.room([row["predicted"] for row in rows], 1.5)
    x = axes.log_channel("predicted", (low, high), "predicted time", "s")
    span = axes.room([1.0, *(row["ratio"] for row in rows)], 1.3)
    y = axes.log_channel("ratio", span, RATIO, "×")
    line = [{"predicted": end, "ratio": 1.0, "least": 1 / (1 + BAND), "most": 1 + BAND} for end in (low, high)]
    grey = colours.colour("line")
    machines = sorted({row["machine"] for row in rows})
    # Above, since below stand the colours, as wide as the chart.
    legend = {"title": None, "orient": "top", "labelLimit": 260} if len(machines) > 1 else None
    shape = vega.channel("machine", "nominal", legend=legend)
    points = vega.layer(
        rows,
        {"type": "point", "filled": True, "size": 70, "opacity": 0.8},
        x=x,
        y=y,
        color=_colour(rows, by_kind),
        shape={**shape, "scale": {"domain": machines}},
        tooltip=vega.tooltip("case", "was predicted", "was measured", "off by", "machine", "commit"),
    )
    least = {**y, "field": "least"}
    return vega.chart(
        vega.layer(
            line, {"type": "area", "opacity": 0.2, "color": grey, "clip": True}, x=x, y=least, y2={"field": "most"}
        ),
        vega.layer(line, {"type": "line", "strokeDash": [5, 3], "color": grey, "strokeWidth": 1.5}, x=x, y=y),
        points,
        height=390,
    )


def errors(cases: Sequence[Case], by_kind: bool = True) -> vega.Chart:
    """How many cases were measured at which ratio to their forecast; what is beyond FARTHEST is in the outer bars."""
    rows = _rows(cases)
    counts: dict[tuple[int, str], int] = {}
    for row in rows:
        place = floor(BINS * log2(min(max(row["ratio"], 1 / FARTHEST), FARTHEST * 0.999)))
        counts[place, row["group"]] = counts.get((place, row["group"]), 0) + 1
    shown: list[dict[str, Any]] = []
    high: dict[int, int] = {}
    for (place, group), count in sorted(counts.items()):
        first = high.get(place, 0)
        high[place] = first + count
        ends = {"from": 2 ** (place / BINS), "to": 2 ** ((place + 1) / BINS)}
        words = f"{ends['from']:.2f} to {ends['to']:.2f} ×"
        shown.append(
            {**ends, "group": group, "low": first, "high": high[place], "cases": f"{count:,}", "between": words}
        )
    x = axes.log_channel("from", (1 / FARTHEST, FARTHEST), RATIO, "×")
    x["axis"] = {**x["axis"], "values": [0.25, 0.5, 0.7, 1, 1.4, 2, 4]}
    bars = vega.layer(
        shown,
        {"type": "bar", "binSpacing": 1},
        x=x,
        x2={"field": "to"},
        y=vega.channel("low", "quantitative", axis={"title": "cases", "tickMinStep": 1}),
        y2={"field": "high"},
        color=_colour(rows, by_kind),
        tooltip=vega.tooltip("group", "between", "cases"),
    )
    right = {"type": "rule", "strokeDash": [5, 3], "color": colours.colour("line")}
    return vega.chart(bars, vega.layer([{"from": 1.0}], right, x=x), height=300)


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


def _rows(cases: Sequence[Case]) -> list[dict[str, Any]]:
    return [
        {
            "predicted": each.predicted,
            "measured": each.measured,
            "ratio": each.ratio,
            "was predicted": duration(each.predicted),
            "was measured": duration(each.measured),
            "off by": f"{each.ratio:.3f} ×",
            "case": printable(each.case),
            "group": printable(each.group),
            "device": each.device,
            "commit": printable(each.commit),
        }
        for each in cases
    ]


def _colour(rows: Sequence[dict[str, Any]], by_kind: bool) -> dict[str, Any]:
    return vega.colour("group", sorted({row["group"] for row in rows}), series=not by_kind)
