"""Charts of serving: how fast one user is answered against how much a GPU answers in all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from calc.charts import axes, colours, vega
from calc.units import duration, si

POINTS = 100
"""Steps of a distribution."""
USER, GPU = "tokens a second that one user sees", "tokens a second of one GPU"


def front(rows: vega.Rows, wanted: float, best: vega.Rows, full: vega.Rows) -> vega.Chart:
    """Plans that none beats in both, a line a device and format; a dashed line at what a user is to
    see, a ring at the best plan, and a cross where memory is full.

    rows, best, full: `device`, `per_user`, `per_gpu`, `plan` (its GPUs and load in words).
    """
    plans, marked, ends = (
        [{**row, "user": si(row["per_user"]), "gpu": si(row["per_gpu"])} for row in each] for each in (rows, best, full)
    )
    x = axes.log_channel("per_user", axes.room([*(row["per_user"] for row in rows), wanted], 1.3), USER)
    y = axes.log_channel("per_gpu", axes.room((row["per_gpu"] for row in rows), 1.5), GPU)
    tooltip = vega.tooltip("device", plan="plan", user="tokens/s/user", gpu="tokens/s/GPU")
    line = vega.layer(
        plans,
        {"type": "line", "point": True},
        x=x,
        y=y,
        color=vega.colour("device", (row["device"] for row in rows), series=True),
        tooltip=tooltip,
    )
    ring = {"type": "point", "size": 320, "strokeWidth": 3, "color": "#d6453d", "filled": False}
    layers = [line, vega.rule("x", wanted, si(wanted), "what a user is to see")]
    if ends:
        cross = {"type": "point", "shape": "cross", "angle": 45, "size": 260, "filled": True, "color": "#d6453d"}
        layers.append(vega.layer(ends, cross, x=x, y=y, tooltip=tooltip))
    if marked:
        layers.append(vega.layer(marked, ring, x=x, y=y, tooltip=tooltip))
    return vega.chart(*layers, height=380)


def latencies(spreads: Mapping[str, Sequence[float]]) -> vega.Chart:
    """How many of 100 requests were answered within so many seconds. spreads: what is waited for -> seconds of each
    request; at most POINTS of each are drawn."""
    rows = []
    for name, values in spreads.items():
        ordered = sorted(values)
        for i in range(POINTS + 1):
            at = ordered[min(i * len(ordered) // POINTS, len(ordered) - 1)]
            rows.append(
                {"what": name, "seconds": at, "share": i / POINTS, "within": duration(at), "of": f"{i / POINTS:.0%}"}
            )
    span = axes.room((row["seconds"] for row in rows), 1.2)
    line = vega.layer(
        rows,
        {"type": "line", "strokeWidth": 2, "interpolate": "step-after"},
        x=axes.log_channel("seconds", span, "seconds", "s"),
        y=vega.channel("share", "quantitative", axis={"title": "requests", "format": ".0%", "tickCount": 5}),
        color=vega.colour("what", spreads, series=True),
        tooltip=vega.tooltip("what", "within", of="requests"),
    )
    return vega.chart(line, height=300)


def measured_over_predicted(rows: vega.Rows) -> vega.Chart:
    """Measured over predicted of each figure of a server. rows: `figure`, `ratio`, `predicted`, `measured` (texts)."""
    x = axes.log_channel("ratio", axes.room([1.0, *(row["ratio"] for row in rows)], 1.3), "measured / predicted", "×")
    y = vega.names("figure", [row["figure"] for row in rows])
    same = {"type": "rule", "strokeDash": [5, 3], "color": colours.colour("line")}
    point = {"type": "point", "filled": True, "size": 90, "opacity": 1, "color": colours.colour("measured")}
    tooltip = vega.tooltip("figure", "predicted", "measured")
    return vega.chart(
        vega.layer([{"ratio": 1.0}], same, x=x),
        vega.layer(rows, point, x=x, y=y, tooltip=tooltip),
        height=22 * len(rows) + vega.AROUND,
    )
