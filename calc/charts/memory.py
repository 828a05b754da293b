"""Charts of memory: terms against GPUs, the moments of a step, and the cache over the context."""

from __future__ import annotations

from collections.abc import Mapping

from calc.charts import axes, bars, colours, vega
from calc.units import binary

TERMS = ("weights", "gradients", "optimizer", "activations", "logits", "kv_cache", "temporaries")
"""The order in which terms are stacked."""
VERDICTS = ("fits", "does not fit")


def memory_against_gpus(
    terms: Mapping[str, int], live: Mapping[str, int], peak: int, capacities: Mapping[str, int], chosen: str = ""
) -> vega.Chart:
    """Two bars by term, all and live at the peak, above one for the memory of each GPU, and a line at the peak.

    chosen: the GPU that is marked.
    """
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
    drawn = bars.stacked(
        rows, "bar", "part", "bytes", axes.sizes("memory of one GPU", most), (*TERMS, *VERDICTS), VERDICTS
    )
    faint = {"condition": {"test": "indexof(datum.part, 'fit') >= 0", "value": 0.5}, "value": 1}
    drawn["layer"][0]["encoding"]["opacity"] = faint
    drawn["layer"].append(vega.rule("x", peak, binary(peak), "peak"))
    drawn["layer"][0]["encoding"]["y"]["axis"]["labelExpr"] = f"(datum.value == '{chosen}' ? '▸ ' : '') + datum.value"
    drawn["height"] = 19 * (2 + len(capacities)) + vega.around(len(TERMS) + len(VERDICTS))
    return drawn


def timeline(moments: Mapping[str, Mapping[str, int]], budget: int, gpu: str = "") -> vega.Chart:
    """What is live from moment to moment, as steps stacked by term, under a line at the memory of the GPU."""
    rows = [
        {"moment": moment, "part": name, "bytes": size, "shown": binary(size)}
        for moment, live in moments.items()
        for name, size in live.items()
        if size
    ]
    most = max(budget, *(sum(live.values()) for live in moments.values()))
    drawn = bars.columns(rows, "moment", "part", "bytes", axes.sizes("live", most), TERMS)
    x = drawn["layer"][0]["encoding"]["x"]
    x["axis"] = {"labelAngle": -25, "labelLimit": 180, "labelOverlap": False}
    x["scale"] = {"paddingInner": 0, "paddingOuter": 0}
    drawn["layer"][0]["mark"] = {"type": "bar", "width": {"band": 1}}
    drawn["layer"].append(vega.rule("y", budget, binary(budget), "memory of the GPU"))
    at = vega.channel("at", "quantitative")
    labels = [{"at": budget, "says": binary(budget), "gpu": gpu}]
    words = {"type": "text", "align": "left", "x": "width", "dx": 4, "fontWeight": "bold"}
    drawn["layer"].append(vega.layer(labels, words, y=at, text={"field": "says"}))
    if gpu:
        drawn["layer"].append(vega.layer(labels, {**words, "dy": -14}, y=at, text={"field": "gpu"}))
    drawn["height"] = 420
    return drawn


def grid(rows: vega.Rows, x: str, y: str, titles: tuple[str, str]) -> vega.Chart:
    """What fits and what does not, a cell for each of two choices.

    rows: the fields x and y, `peak` bytes, `capacity` bytes of the GPU; peak None where it cannot be. titles: of the
    axes.
    """
    cells = [{**row, **_cell(row["peak"], row["capacity"]), "x": f"{row[x]}", "y": f"{row[y]}"} for row in rows]
    verdicts = (*VERDICTS, "cannot be")
    colour = {"domain": [*verdicts], "range": [colours.colour(name) for name in verdicts]}
    axis = {"labelOverlap": False, "labelLimit": 130}
    narrow = f"width < {vega.NARROW}"
    turned = {"labelAngle": {"expr": f"{narrow} ? -50 : 0"}, "labelAlign": {"expr": f"{narrow} ? 'right' : 'center'"}}
    across = {"sort": list(dict.fromkeys(row["x"] for row in cells)), "axis": {**axis, **turned, "title": titles[0]}}
    down = {"sort": list(dict.fromkeys(row["y"] for row in cells)), "axis": {**axis, "title": titles[1]}}
    place = {"x": vega.channel("x", "ordinal", **across), "y": vega.channel("y", "ordinal", **down)}
    legend = {"title": None, "orient": "bottom", "symbolOpacity": 1}
    fill = vega.channel("verdict", "nominal", scale=colour, legend=legend)
    tooltip = vega.tooltip("verdict", x=titles[0], y=titles[1], shown="peak", share="of the GPU")
    body = vega.layer(cells, {"type": "rect", "opacity": 0.4}, **place, color=fill, tooltip=tooltip)
    words = vega.layer(cells, {"type": "text"}, **place, text=vega.by_width("shown", "short"))
    return vega.chart(body, words, height=28 * len(down["sort"]) + vega.around(3))


def _cell(peak: int | None, capacity: int) -> dict[str, str]:
    if peak is None:
        return {"verdict": "cannot be", "shown": "–", "short": "–", "share": "–"}
    part = peak / capacity
    short = f"{part:.0%}" if part < 10 else f"{part:,.0f}×"
    return {"verdict": VERDICTS[peak > capacity], "shown": binary(peak), "short": short, "share": f"{part:.0%}"}


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
