"""How far a number moves with each of the sizes in its formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calc.charts import axes, vega


def changes(rows: Sequence[dict[str, Any]], unit: str) -> vega.Chart:
    """A bar for each symbol: by what share the value moves.

    rows: symbol, meaning, now, and change, a share of the value, None where it is not known. unit: of the value.
    """
    bars = [
        {**row, "shown": f"{row['change'] or 0:+.2%}", "way": "less" if (row["change"] or 0) < 0 else "more"}
        for row in rows
    ]
    axis = {"format": "+.0%", "title": f"change of the value ({unit})", "tickCount": axes.TICKS}
    body = vega.layer(
        bars,
        "bar",
        y=vega.names("symbol", (row["symbol"] for row in rows)),
        x=vega.channel("change", "quantitative", axis=axis),
        color=vega.colour("way", ("more", "less")),
        tooltip=vega.tooltip("symbol", "meaning", "now", shown="change"),
    )
    return vega.chart(body, height=vega.STEP * len(bars) + vega.around(2))
