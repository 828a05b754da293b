"""Charts of serving: how fast one user is answered against how much a GPU answers in all."""

from __future__ import annotations

from calc.charts import axes, vega
from calc.units import si

USER, GPU = "tokens a second that one user sees", "tokens a second of one GPU"


def front(rows: vega.Rows, wanted: float, best: vega.Rows, title: str) -> vega.Chart:
    """Plans that none beats in both, a line a device; a dashed line at what a user is to see, a ring at the best plan.

    rows, best: `device`, `per_user`, `per_gpu`, `plan` (its GPUs and load in words).
    """
    shown = [{**row, "user": si(row["per_user"]), "gpu": si(row["per_gpu"])} for row in (*rows, *best)]
    plans, marked = shown[: len(rows)], shown[len(rows) :]
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
    if marked:
        layers.append(vega.layer(marked, ring, x=x, y=y, tooltip=tooltip))
    return vega.chart(*layers, height=380, title=title)
