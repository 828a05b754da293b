"""Charts of plans: memory against time, one step from the device's peak to what is reached, and its stages in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calc.charts import axes, colours, vega
from calc.time import Bar
from calc.time.schedule.timeline import Timeline
from calc.time.step.waterfall import IDEAL
from calc.units import binary, duration

ROW = 26
"""Pixels of a bar of the waterfall or of a stage."""
WAITING, BUBBLE = "network", "bubble"
KINDS = ("forward", "backward", "weights", WAITING, "optimizer", BUBBLE)
"""What a stage does, in the order of the legend."""
MOST_EVENTS = 2500
"""Events that a browser is sent."""
MOST_STAGES = 16


def front(plans: vega.Rows, best: Mapping[str, Any], budget: int) -> vega.Chart:
    """Plans by what they hold and how long a step takes: a line through those that none beats in both, a ring at the
    best, a dashed line at what may be held.

    plans, best: `plan` in words, `reserved` bytes, `seconds`, `front` whether none beats it.
    """
    rows = [{**row, "held": binary(row["reserved"]), "step": duration(row["seconds"])} for row in plans]
    most = max(budget, *(row["reserved"] for row in rows))
    x = vega.channel("reserved", "quantitative", axis=axes.sizes("reserved on the fullest GPU", most))
    low, high = axes.room((row["seconds"] for row in rows), 1.15)
    y = axes.log_channel("seconds", (low, high), "time of a step", "s")
    tooltip = vega.tooltip("plan", held="reserved", step="step")
    undominated = sorted((row for row in rows if row["front"]), key=lambda row: row["reserved"])
    blue, red = colours.SERIES[0], colours.colour("does not fit")
    stairs = {"type": "line", "interpolate": "step-after", "color": blue, "opacity": 0.6}
    dots = {"type": "point", "filled": True, "size": 70, "color": blue}
    ring = {"type": "point", "size": 320, "strokeWidth": 3, "color": red, "filled": False}
    chosen = [{**best, "held": binary(best["reserved"]), "step": duration(best["seconds"]), "says": "the best"}]
    faint = {"condition": {"test": "datum.front", "value": 1.0}, "value": 0.35}
    words = {"type": "text", "dy": -22, "fontWeight": "bold"}
    limit = {"type": "text", "align": "right", "dx": -6, "y": 10}
    at = vega.channel("at", "quantitative")
    return vega.chart(
        vega.layer(undominated, stairs, x=x, y=y),
        vega.layer(rows, dots, x=x, y=y, opacity=faint, tooltip=tooltip),
        vega.layer(chosen, ring, x=x, y=y, tooltip=tooltip),
        vega.layer(chosen, words, x=x, y=y, text={"field": "says"}),
        vega.rule("x", budget, binary(budget), "what may be reserved"),
        vega.layer([{"at": budget, "says": f"{binary(budget)} may be reserved"}], limit, x=at, text={"field": "says"}),
        height=320,
    )


def waterfall_chart(bars: Sequence[Bar]) -> vega.Chart:
    """A step from the device's peak to what is reached: each loss begins where the one before ends."""
    rows: list[dict[str, Any]] = []
    passed, whole = 0.0, sum(bar.seconds for bar in bars)
    for bar in bars:
        share = bar.seconds / whole
        rows.append(
            {
                "what": "products and attention at the peak" if bar.what == IDEAL else bar.what,
                "start": passed,
                "end": passed + bar.seconds,
                "kind": "peak" if bar.what == IDEAL else "loss",
                "time": duration(bar.seconds),
                "share": f"{share:.1%}",
                "label": f"{duration(bar.seconds)} · {share:.1%}",
            }
        )
        passed += bar.seconds
    rows.append({"what": "the step", "start": 0.0, "end": whole, "kind": "step", "time": duration(whole)})
    rows[-1] |= {"share": "100%", "label": duration(whole)}
    kinds = {"peak": colours.colour("fits"), "loss": colours.SERIES[1], "step": colours.SERIES[0]}
    colour = vega.channel("kind", "nominal", scale={"domain": [*kinds], "range": [*kinds.values()]}, legend=None)
    time = {"title": "time of a step", "labelExpr": axes.labels("s"), "tickCount": 6}
    y = vega.names("what", (row["what"] for row in rows), labelLimit=220)
    room = {"domain": [0, whole * 1.18]}
    x = vega.channel("start", "quantitative", axis=time, scale=room)
    body = vega.layer(
        rows, "bar", y=y, x=x, x2={"field": "end"}, color=colour, tooltip=vega.tooltip("what", "time", "share")
    )
    words = {"type": "text", "align": "left", "dx": 5}
    end = vega.channel("end", "quantitative", scale=room)
    label = vega.by_width("label", "time")
    return vega.chart(body, vega.layer(rows, words, y=y, x=end, text=label), height=ROW * len(rows) + 60)


def stages(events: vega.Rows, seconds: float, names: Sequence[str]) -> vega.Chart:
    """What each stage of a pipeline does, one above the other; what is grey waits for other stages.

    events: `rows_of`'s. seconds: of the step. names: of the stages that are drawn.
    """
    waits = [{"stage": name, "start": 0.0, "end": seconds, "kind": BUBBLE, "micro": "–"} for name in names]
    rows = [{**row, "time": duration(row["end"] - row["start"])} for row in events]
    here = {row["kind"] for row in rows} | {BUBBLE}
    y = vega.names("stage", names)
    time = {"title": "time from the start of the step", "labelExpr": axes.labels("s"), "tickCount": axes.TICKS}
    x = vega.channel("start", "quantitative", axis=time, scale={"domain": [0, seconds], "nice": False})
    colour = vega.colour("kind", [kind for kind in KINDS if kind in here])
    colour["legend"]["symbolOpacity"] = 1
    tooltip = vega.tooltip("stage", "kind", micro="micro-batch", time="time")
    place: dict[str, Any] = {"y": y, "x": x, "x2": {"field": "end"}, "color": colour}
    behind = vega.layer(waits, {"type": "bar", "opacity": 0.35}, **place)
    body = vega.layer(rows, {"type": "bar", "stroke": "white", "strokeWidth": 0.4}, **place, tooltip=tooltip)
    return vega.chart(behind, body, height=ROW * len(names) + vega.around(6))


def rows_of(timeline: Timeline) -> tuple[list[dict[str, Any]], list[str], bool]:
    """What `stages` draws of a timeline: (events, names of the stages, whether some are left out for their number).

    Of a task, what waits for messages and copies that nothing hides is drawn at its end; copies themselves are not.
    """
    every = len(timeline.stages)
    apart = max(-(-every // MOST_STAGES), 1)
    some = sorted({*range(0, every, apart), every - 1})
    each = MOST_EVENTS // len(some)
    rows: list[dict[str, Any]] = []
    for stage in some:
        waiting = timeline.times[stage].waiting
        for event in [event for event in timeline.stages[stage] if event.stream != "host"][:each]:
            task = event.what in ("forward", "backward", "weights")
            micro = f"{event.micro_batch}" if task else "–"
            what, end = (event.what if event.stream == "computing" else WAITING), event.end
            if task and waiting:
                end -= waiting * (event.end - event.start)
                rows.append(_part(stage, WAITING, micro, end, event.end))
            rows.append(_part(stage, what, micro, event.start, end))
    cut = len(some) < every or any(len(timeline.stages[stage]) > each for stage in some)
    return rows, [_named(stage) for stage in some], cut


def _part(stage: int, kind: str, micro: str, start: float, end: float) -> dict[str, Any]:
    return {"stage": _named(stage), "kind": kind, "micro": micro, "start": start, "end": end}


def _named(stage: int) -> str:
    return f"stage {stage}"
