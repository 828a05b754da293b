"""Charts of attention: what standard and flash need over the length of a sequence, and what grouping of heads saves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from calc.charts import axes, vega
from calc.time.attention_calls.attention_sweep import Decoded, Point
from calc.units import binary, duration, si

DOUBLING = {"type": "log", "base": 2, "nice": False}
TENS = {"type": "log", "nice": False}
BOTH = ("standard", "flash")


def over_length(points: Iterable[Point], need: str, seq: int, wins: int | None) -> vega.Chart:
    """One need of both over tokens, time with the interval it is expected in.

    wins: from where on flash needs less, drawn dashed; seq: what the page asks about, drawn as points.
    """
    rows = [
        {
            "attention": point.attention,
            "tokens": point.seq,
            "need": getattr(point, need),
            "low": point.low,
            "high": point.high,
            "shown": written(need, getattr(point, need)),
        }
        for point in points
    ]
    x = vega.channel("tokens", "quantitative", scale=DOUBLING, axis=axes.token_axis("tokens"))
    y = vega.channel("need", "quantitative", scale=TENS, axis=_axis(need, [row["need"] for row in rows]))
    colour = vega.colour("attention", BOTH, series=True)
    colour["legend"] |= {"symbolOpacity": 1, "symbolType": "stroke"}
    drawn = {"x": x, "y": y, "color": colour}
    tooltip = vega.tooltip("attention", "tokens", shown=need)
    layers = [vega.layer(rows, {"type": "line", "strokeWidth": 2}, **drawn, tooltip=tooltip)]
    layers.append(
        vega.layer(
            [row for row in rows if row["tokens"] == seq],
            {"type": "point", "filled": True, "size": 70, "opacity": 1},
            **drawn,
            tooltip=tooltip,
        )
    )
    if need == "seconds":
        ends = {**drawn, "y": {**y, "field": "low"}, "y2": {"field": "high"}}
        layers.insert(0, vega.layer(rows, {"type": "area", "opacity": 0.15}, **ends))
    if wins is not None and wins >= min(row["tokens"] for row in rows):
        layers.append(vega.rule("x", wins, f"{wins:,} tokens", "flash needs less from"))
    return vega.chart(*layers, height=330)


def _axis(need: str, values: list[float]) -> dict[str, Any]:
    """A logarithmic axis with a mark at every round size: powers of 1,024 of memory, of ten of all else."""
    if need == "peak":
        return {**axes.sizes("memory"), "title": None, "values": [2.0**power for power in range(0, 60, 5)]}
    unit = {"flops": "FLOP", "traffic": "B", "seconds": "s"}[need]
    marks = axes.ticks(min(values) / 2, 2 * max(values))
    return {"title": None, "labelExpr": axes.labels(unit), "values": marks}


def written(need: str, value: float) -> str:
    """A need with its unit."""
    return SHOWN[need](value)


def groups(found: Iterable[Decoded], need: str, axis: dict[str, Any]) -> vega.Chart:
    """One need of a decode step by how keys and values are kept."""
    rows = [
        {"kept": one.name, "need": getattr(one, need), "low": one.low, "high": one.high,
         "shown": written(need, getattr(one, need))}
        for one in found
    ]  # fmt: skip
    y = vega.names("kept", [row["kept"] for row in rows])
    x = vega.channel("need", "quantitative", axis=axis)
    fill = vega.colour("kept", [row["kept"] for row in rows], series=True) | {"legend": None}
    bars = vega.layer(rows, "bar", x=x, y=y, color=fill, tooltip=vega.tooltip("kept", shown=need))
    return vega.chart(bars, height=vega.STEP * len(rows) + 60)


SHOWN = {
    "flops": lambda value: si(value, "FLOP"),
    "traffic": lambda value: si(value, "B"),
    "peak": binary,
    "cached": lambda value: si(value, "B"),
    **dict.fromkeys(("seconds", "low", "high"), duration),
}
"""How a table writes each column."""
