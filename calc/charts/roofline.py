"""The charts of the page Roofline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from calc.charts import axes, colours, vega
from calc.time import Point, Prediction, Roof
from calc.units import duration, si

HEIGHT = 380
AREAS = 30, 2500
"""Square pixels of the point of an op without time, and of one that takes all of it."""
BELOW = f"sqrt(({AREAS[0]} + {AREAS[1] - AREAS[0]} * datum.part) / PI) + 8"
"""Pixels from the middle of a point to its name below it, where no name of a roof stands."""
LABELLED = 5
"""Ops that have their names beside them."""
APART = 0.16, 0.06
"""Parts of the width and the height that names are apart."""
SHAPES = {
    "forward": "circle",
    "recomputed": "diamond",
    "backward": "square",
    "update": "triangle-up",
    "network": "cross",
}
"""Direction -> shape of a point."""
SIGNS = {"forward": "●", "recomputed": "◆", "backward": "■", "update": "▲", "network": "✚"}
"""The same as letters of a text."""


def computing(points: Sequence[Point], limits: Roof) -> vega.Chart:
    """FLOP/s over FLOPs a byte, for the ops that have FLOPs, below the roof of each number format."""
    rows = [_row(point) for point in points if point.flops]
    least, most = axes.room([*(row["intensity"] for row in rows), *(ridge / 20 for ridge in limits.ridges.values())])
    most = max(most, 4 * max(limits.ridges.values(), default=most))
    rates = axes.room([*(row["rate"] for row in rows), *limits.peaks.values()])
    x = axes.log_channel("intensity", (least, most), "arithmetic intensity (FLOP/B)")
    y = axes.log_channel("rate", rates, "rate", "FLOP/s")
    roof = [
        {"intensity": at, "rate": rate, "format": dtype, "label": f"{dtype}: {si(limits.peaks[dtype], 'FLOP/s')}"}
        for dtype in limits.peaks
        for at, rate in limits.line(dtype, max(least, rates[0] / limits.bandwidth), most)
    ]
    ends = [row for row in roof if row["intensity"] == most]
    line = {"type": "line", "color": colours.colour("line"), "strokeWidth": 2}
    names = {"type": "text", "dy": {"expr": BELOW}, "fontSize": 11}
    return vega.chart(
        vega.layer(roof, line, x=x, y=y, detail=vega.channel("format", "nominal")),
        vega.layer(ends, _words(align="right"), x=x, y=y, text=vega.channel("label", "nominal")),
        _points(rows, x, y),
        vega.layer(_longest(rows, least, most, rates), names, x=x, y=y, text={"field": "op"}),
        height=HEIGHT,
    )


def moving(points: Sequence[Point], limits: Roof) -> vega.Chart:
    """Bytes/s over bytes, for the ops that have no FLOPs, below the memory's bandwidth; collectives by what each link
    carries."""
    rows = [_row(point) for point in points]
    x = axes.log_channel("bytes", axes.room(row["bytes"] for row in rows), "bytes moved in a step", "B")
    span = axes.room([*(row["bandwidth"] for row in rows), limits.bandwidth])
    y = axes.log_channel("bandwidth", span, "rate", "B/s")
    limit = [{"bandwidth": limits.bandwidth, "label": f"memory: {si(limits.bandwidth, 'B/s')}"}]
    rule = {"type": "rule", "color": colours.colour("line"), "strokeWidth": 2}
    return vega.chart(
        vega.layer(limit, rule, y=y),
        vega.layer(limit, _words(align="left", dx=6), y=y, x={"value": 0}, text=vega.channel("label", "nominal")),
        _points(rows, x, y),
        height=340,
    )


def shares(found: Prediction) -> vega.Chart:
    """Seconds of a step by component."""
    rows = [
        {"component": name, "seconds": value, "time": duration(value), "share": f"{found.share(value):.1%}"}
        for name, value in found.by_component.items()
    ]
    components = [row["component"] for row in rows]
    time = {"title": "time of a step", "labelExpr": axes.labels("s"), "tickCount": 6}
    bars = vega.layer(
        rows,
        "bar",
        y=vega.names("component", components),
        x=vega.channel("seconds", "quantitative", axis=time),
        color={**vega.colour("component", components), "legend": None},
        tooltip=vega.tooltip("component", "time", "share"),
    )
    return vega.chart(bars, height=26 * len(rows) + 70)


def _points(rows: list[dict[str, Any]], x: dict[str, Any], y: dict[str, Any]) -> vega.Chart:
    size = {"domain": [0, 1], "range": [*AREAS]}
    shape = {"domain": list(SHAPES), "range": list(SHAPES.values())}
    return vega.layer(
        rows,
        {"type": "point", "filled": True, "opacity": 0.8},
        x=x,
        y=y,
        size=vega.channel("part", "quantitative", scale=size, legend=None),
        color=vega.colour("component", [row["component"] for row in rows]),
        shape=vega.channel("direction", "nominal", scale=shape, legend=None),
        tooltip=vega.tooltip("op", "function", "direction", "time", "share", "FLOPs", "moved", "reaches", "bound"),
    )


def _longest(rows: list[dict[str, Any]], least: float, most: float, rates: tuple[float, float]) -> list[dict[str, Any]]:
    """The ops that take the most of the time, but for those whose names would cover one of these."""
    wide, high = math.log(most / least), math.log(rates[1] / rates[0])
    found: list[tuple[float, float, dict[str, Any]]] = []
    for row in sorted(rows, key=lambda row: -row["part"]):
        x, y = math.log(row["intensity"]) / wide, math.log(row["rate"]) / high
        if all(abs(x - other[0]) > APART[0] or abs(y - other[1]) > APART[1] for other in found):
            found.append((x, y, {**row, "op": row["op"].rpartition("}.")[2]}))
    return [row for *_, row in found[:LABELLED]]


def _words(**more: Any) -> dict[str, Any]:
    return {"type": "text", "dy": -9, "fontSize": 12, **more}


def _row(point: Point) -> dict[str, Any]:
    return {
        "op": point.path,
        "component": point.component,
        "function": point.function,
        "direction": point.direction,
        "intensity": point.intensity,
        "rate": point.rate,
        "bytes": point.bytes,
        "bandwidth": point.bandwidth if point.bus_bandwidth is None else point.bus_bandwidth,
        "part": point.share,
        "share": f"{point.share:.1%}",
        "time": duration(point.seconds),
        "FLOPs": si(point.flops, "FLOP") if point.flops else "none that count",
        "moved": si(point.bytes, "B"),
        "reaches": si(point.rate, "FLOP/s") if point.flops else point.bandwidth_text,
        "bound": point.bound,
    }
