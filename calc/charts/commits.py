"""Measured times from commit to commit: of each kind of case, and of each case at two of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Protocol

from calc.charts import axes, colours, vega
from calc.errors import printable

SHOWN = 25
"""Changes of a chart."""
VERDICTS = ("SLOWER", "SAME", "FASTER")


class Change(Protocol):
    """What is drawn of a case at two commits: seconds after over before, the least and the most that both intervals
    allow, and the verdict."""

    @property
    def case(self) -> str: ...
    @property
    def ratio(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def verdict(self) -> str: ...


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


def changes(found: Sequence[Change]) -> vega.Chart:
    """Seconds after over seconds before of each case, with what the noise of both leaves possible, the largest change
    first; at most SHOWN."""
    most = sorted(found, key=lambda each: -abs(log2(each.ratio)))[:SHOWN]
    rows = [
        {
            "case": printable(each.case),
            "ratio": each.ratio,
            "low": each.low,
            "high": each.high,
            "verdict": each.verdict,
            "change": f"{each.ratio:.3f} ×, {each.low:.3f} to {each.high:.3f}",
        }
        for each in most
    ]
    span = axes.room([1.0, *(row[end] for row in rows for end in ("low", "high"))], 1.1)
    x = axes.log_channel("ratio", span, "time after / time before", "×")
    y = vega.names("case", [row["case"] for row in rows], labelLimit=300)
    drawn = {
        "y": y,
        "color": vega.colour("verdict", [name for name in VERDICTS if name in {r["verdict"] for r in rows}]),
    }
    tooltip = vega.tooltip("case", "verdict", "change")
    same = {"type": "rule", "strokeDash": [5, 3], "color": colours.colour("line")}
    noise = {"type": "rule", "strokeWidth": 3, "opacity": 0.6}
    point = {"type": "point", "filled": True, "size": 60, "opacity": 1}
    return vega.chart(
        vega.layer([{"ratio": 1.0}], same, x=x),
        vega.layer(rows, noise, x={**x, "field": "low"}, x2={"field": "high"}, **drawn, tooltip=tooltip),
        vega.layer(rows, point, x=x, **drawn, tooltip=tooltip),
        height=22 * len(rows) + vega.around(len(VERDICTS)),
    )
