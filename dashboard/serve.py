"""The page Serve: how fast users are answered against how much a GPU answers, and the plan that meets a wish."""

from __future__ import annotations

from typing import Any

import streamlit as st

from calc.charts import serving as charts
from calc.errors import Refused
from calc.units import duration, si
from dashboard import frame, knobs, layout, picker, saved, serving, serving_measured, serving_requests
from dashboard.memory import GPU, gpus

LEAD = "The more users share a GPU, the more tokens it makes and the slower each of them is answered."
FORMATS = ("bf16", "fp8", "int8", "int4:g128")
"""Number formats of weights that are offered, of which several may stand beside each other."""
MOST = 4
"""Devices beside each other."""


def render(picked: picker.Picked | None) -> None:
    """Draw the page: the answer and the picture above the knobs that they answer."""
    frame.header("Serve", LEAD)
    chosen = picker.wanted(picked)
    answer = st.container()
    wanted = _knobs()
    with answer, frame.refusals("No way to serve"):
        if not (chosen.spec.decodes and chosen.spec.reads_tokens):
            raise Refused("model", "a model that goes on token by token", chosen.spec.name)
        if not (wanted.devices and wanted.dtypes):
            raise Refused("devices and formats", "at least one of each", "none")
        found = serving.found(chosen.spec, wanted)
        saved.about(", ".join(wanted.devices), wanted.command(chosen.reference))
        _sentence(found, wanted)
        picture, figures = layout.side_by_side()
        if found["best"]:
            with figures:
                _figures(found["best"])
        rows = [_point(plan) for plan in found["front"]]
        full = [_point(plan) for plan in found["front"] if _last(plan, found["front"])]
        if rows:
            best = [_point(found["best"])] if found["best"] else []
            drawn = charts.front(rows, wanted.per_user, best, full)
            with picture:
                frame.chart(drawn, "serving", alt="Tokens a second of a GPU over tokens a second of a user")
            frame.table(found["front"], "front", folded="Table")
            st.caption(
                "A line for each device and format. Dashed: what a user is to see. Ring: the plan above. Cross: there "
                "the memory of the largest load is full. The command prints plans that no other device beats."
            )
        if found["best"]:
            serving_requests.draw(chosen, found["best"], wanted)
    serving_measured.draw()
    if wanted.devices and wanted.dtypes:
        frame.command(wanted.command(chosen.reference))


def _sentence(found: dict[str, Any], wanted: serving.Wanted) -> None:
    best, nearest = found["best"], found["nearest"]
    devices = ", ".join(wanted.devices)
    if best is None:
        why = "no server of up to 8 holds the model"
        if nearest is not None:
            why = f"the fastest, {_server(nearest)}, gives a user {nearest['tokens_per_user']:,.0f}"
        st.error(f"{devices}: {wanted.per_user} tokens a second for each user cannot be had: {why}.")
        return
    st.success(
        f"{_server(best)} serve {best['concurrency']:,.0f} users "
        f"at once, each at {best['tokens_per_user']:,.0f} tokens a second."
    )


def _server(plan: dict[str, Any]) -> str:
    return f"{plan['gpus']} × {plan['device']} ({plan['layout']}, {plan['dtype']})"


def _figures(best: dict[str, Any]) -> None:
    with layout.cards():
        frame.metric("Users at once", f"{best['concurrency']:,.0f}", "", f"on {best['gpus']} GPU(s)")
        frame.metric("Tokens/s of a GPU", si(best["tokens_per_gpu"]), f"{best['tokens_per_gpu']!r}")
        frame.metric("First token after", duration(best["ttft"]), f"{best['ttft']!r} s", "in the mean")
        cost = best["cost_per_million_output_with_input"]
        frame.metric("A million tokens", f"${cost:,.3g}", "", "of answers")


def _point(plan: dict[str, Any]) -> dict[str, Any]:
    words = f"{plan['gpus']} GPU(s), {plan['layout']}, {plan['concurrency']:,.0f} users"
    if plan.get("full"):
        words += f"; its memory holds {plan['most']:,.0f}"
    return {
        "device": f"{plan['device']}, {plan['dtype']}",
        "per_user": plan["tokens_per_user"],
        "per_gpu": plan["tokens_per_gpu"],
        "plan": words,
    }


def _last(plan: dict[str, Any], front: list[dict[str, Any]]) -> bool:
    """Whether the plan is the largest load of its device in its format, and memory is what keeps it from more."""
    same = [each for each in front if (each["device"], each["dtype"]) == (plan["device"], plan["dtype"])]
    return plan["full"] and plan is max(same, key=lambda each: each["tokens_per_gpu"])


def _knobs() -> serving.Wanted:
    st.header("What is asked", anchor=False)
    one, two, three = st.columns(3)
    devices = one.multiselect("Devices", gpus(), [GPU, "l40s"], key="on", bind="query-params", max_selections=MOST)
    dtypes = one.multiselect("Formats of weights", FORMATS, FORMATS[:1], key="served", bind="query-params")
    with two:
        read = _length("Prompt (tokens)", "input", serving.INPUT)
        made = _length("Answer (tokens)", "output", serving.OUTPUT)
    with three:
        fast = serving.per_user()
        price = knobs.price()
    return serving.Wanted(tuple(devices), read, made, fast, tuple(dtypes), price)


def _length(label: str, key: str, usual: int) -> int:
    stops = knobs.holding(key, serving.LENGTHS, serving.LENGTHS[-1])
    return int(st.select_slider(label, [n for n in stops if n > 1], usual, key=key, bind="query-params"))
