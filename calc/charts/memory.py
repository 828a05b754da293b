"""Charts of memory: terms against GPUs, the moments of a step, and the cache over the context."""

from __future__ import annotations

from collections.abc import Mapping

from calc.charts import axes, bars, vega
from calc.units import binary

TERMS = ("weights", "gradients", "optimizer", "activations", "logits", "kv_cache", "temporaries")
"""The order in which terms are stacked."""
VERDICTS = ("fits", "does not fit")


def against(terms: Mapping[str, int], live: Mapping[str, int], peak: int, capacities: Mapping[str, int]) -> vega.Chart:
    """Two bars by term, all and live at the peak, above one for the memory of each GPU, and a line at the peak."""
    rows = [
        {"bar": bar, "part": name, "bytes": size, "shown": binary(size)}
        for bar, held in (("all terms", terms), ("at the peak", live))
        for name, size in held.items()
        if size
    ]
    rows += [
        {"bar": name, "part": VERDICTS[peak > size], "bytes": size, "shown": binary(size)}
        for name, size in capacities.items()
    ]
    most = max(sum(terms.values()), peak, *capacities.values())
    drawn = bars.stacked(rows, "bar", "part", "bytes", axes.sizes("memory of one GPU", most), (*TERMS, *VERDICTS))
    faint = {"condition": {"test": "indexof(datum.part, 'fit') >= 0", "value": 0.5}, "value": 1}
    drawn["layer"][0]["encoding"]["opacity"] = faint
    drawn["layer"].append(vega.rule("x", peak, binary(peak), "peak"))
    drawn["height"] = 19 * (2 + len(capacities)) + vega.around(len(TERMS) + len(VERDICTS))
    return drawn


def timeline(moments: Mapping[str, Mapping[str, int]], budget: int) -> vega.Chart:
    """What is live at each moment, stacked by term, under a line at the memory of the GPU."""
    rows = [
        {"moment": moment, "part": name, "bytes": size, "shown": binary(size)}
        for moment, live in moments.items()
        for name, size in live.items()
        if size
    ]
    most = max(budget, *(sum(live.values()) for live in moments.values()))
    drawn = bars.columns(rows, "moment", "part", "bytes", axes.sizes("live", most), TERMS)
    drawn["layer"][0]["encoding"]["x"]["axis"] = {"labelAngle": -25, "labelLimit": 180, "labelOverlap": False}
    drawn["layer"].append(vega.rule("y", budget, binary(budget), "memory of the GPU"))
    drawn["height"] = 420
    return drawn


def caches(rows: vega.Rows) -> vega.Chart:
    """The cache over the context, a line a model, both axes logarithmic."""
    shown = [{**row, "shown": binary(row["bytes"])} for row in rows]
    doubling = {"type": "log", "base": 2}
    body = vega.layer(
        shown,
        {"type": "line", "point": True},
        x=vega.channel("context", "quantitative", scale=doubling, axis=axes.token_axis("tokens in the cache")),
        y=vega.channel("bytes", "quantitative", scale=doubling, axis=axes.sizes("KV cache")),
        color=vega.colour("model", (row["model"] for row in rows), series=True),
        # A model is under its own kind of attention: without this nobody would see it.
        strokeWidth={"condition": {"test": "datum.attention == 'as it is'", "value": 7}, "value": 2},
        tooltip=vega.tooltip("model", "context", shown="cache"),
    )
    return vega.chart(body, height=440)
