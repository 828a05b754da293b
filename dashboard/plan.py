"""The page Plan: every way to spread a training run over GPUs, weighed and timed; the one that wins, and why."""

from __future__ import annotations

from typing import Any

import streamlit as st

from calc.charts import plans as charts
from calc.errors import Refused
from calc.time import Bar
from calc.units import binary, duration, si
from dashboard import frame, layout, picker, plan_knobs, saved
from dashboard.planned import LONGEST, Wanted, planned

LEAD = (
    "Every way to spread a training run over the GPUs of a cluster, each with its memory and its time; the best first."
)

DEGREES = {
    "dp": "data-parallel",
    "tp": "tensor-parallel",
    "pp": "pipeline",
    "cp": "context-parallel",
    "ep": "expert-parallel",
}


def render(picked: picker.Picked | None) -> None:
    """Draw the page: the answer and the picture above the knobs that they answer."""
    frame.header("Plan", LEAD)
    chosen = picker.wanted(picked)
    answer = st.container()
    wanted = plan_knobs.ask(chosen.spec)
    command = wanted.command(chosen.reference)
    saved.about(f"{wanted.gpus:,} GPUs of {wanted.cluster}", command)
    with frame.refusals("No plan"):
        if not chosen.spec.reads_tokens:
            raise Refused("model", "a model that reads tokens, on which a whole run trains", chosen.spec.name)
        with answer, st.spinner("Searching all plans"):
            found = planned(chosen.spec, wanted)
        if found["best"] is None:
            answer.error(f"No plan: {frame.verbatim(found['why'])}.")
        else:
            with answer:
                _sentence(found, wanted)
                picture, figures = layout.side_by_side()
                with picture:
                    _front(found)
                with figures:
                    _figures(found)
            _step(found)
            _plans(found)
            _launch(found["launch"], wanted)
        frame.command(command)


def _sentence(found: dict[str, Any], wanted: Wanted) -> None:
    best = found["best"]
    where = f"{wanted.gpus:,} GPUs of {wanted.cluster}"
    st.success(
        f"{where}: {_spoken(best['plan'])}. A step takes {duration(best['seconds'])}, {wanted.tokens:,} billion tokens "
        f"{best['days']:,.1f} days."
    )
    if found["interrupted"]:
        st.warning(f"The search was ended after {LONGEST:g} s: these are the best until then. The command goes on.")


def _figures(found: dict[str, Any]) -> None:
    best = found["best"]
    low, high = best["interval"]["low"], best["interval"]["high"]
    with layout.cards():
        frame.metric("Time of a step", duration(best["seconds"]), "", f"{duration(low)} to {duration(high)}")
        frame.metric(
            "MFU", "–" if best["mfu"] is None else f"{best['mfu']:.1%}", "", f"{si(best['tokens_per_second'])} tokens/s"
        )
        frame.metric("Reserved of a GPU", binary(best["memory_reserved"]), "", f"{binary(best['memory_left'])} left")
        frame.metric(
            "GPU-days", f"{best['gpu_hours'] / 24:,.0f}", "With checkpoints and failures", f"${best['money']:,.0f}"
        )


def _spoken(plan: dict[str, Any]) -> str:
    """A plan in words: 16 data-parallel × 4 context-parallel ranks, ZeRO 3, …"""
    degrees = [f"{plan[name]} {title}" for name, title in DEGREES.items() if plan[name] > 1]
    parts = [f"{' × '.join(degrees)} ranks" if degrees else "one rank"]
    parts += [f"ZeRO {plan['zero']}"] * bool(plan["zero"])
    batches = "micro-batch" if plan["micro_batches"] == 1 else "micro-batches"
    parts.append(f"{plan['micro_batches']} {batches} of {plan['micro_batch']} a rank")
    if plan["pp"] > 1:
        parts += ["zero-bubble"] * (plan["schedule"] != "1f1b")
        parts += [f"{plan['interleave']} pieces a stage"] * (plan["interleave"] > 1)
    checkpointing, every = plan["checkpointing"], plan["checkpoint_every"]
    some = f" of one layer in {every}" * (every > 1)
    again = [f"{' + '.join(plan['recompute'])} computed again"] if plan["recompute"] else []
    return ", ".join(
        [
            *parts,
            "no checkpointing" if checkpointing == "none" else f"{checkpointing} checkpointing{some}",
            *again,
            plan["recipe"],
        ]
    )


def _front(found: dict[str, Any]) -> None:
    rows = [{name: row[name] for name in ("plan", "reserved", "seconds", "front")} for row in found["plans"]]
    drawn = charts.front(rows, rows[0], found["budget"])
    frame.chart(drawn, "plans", alt="Time of a step over the memory that a plan reserves")
    st.caption(
        f"Of {found['listed']:,} plans {found['timed']:,} fit. Shown are the best, and those that hold less and take "
        "longer; the others lose in both."
    )


def _step(found: dict[str, Any]) -> None:
    st.header("From the device's peak to what is reached", anchor=False)
    st.caption("The step of the best plan: products and attention at the peak, and what each loss adds to them.")
    bars = [Bar(*each) for each in found["bars"]]
    frame.chart(charts.waterfall_chart(bars), "fall", alt="The step of the best plan as a waterfall of losses")
    money, whole = found["best"]["money"], found["best"]["seconds"]
    rows = [
        {"what": what, "time (ms)": s * 1e3, "share": s / whole, "$ of the whole run": money * s / whole}
        for what, s in found["bars"]
    ]
    st.header("Where the money goes", anchor=False)
    number = st.column_config.NumberColumn
    columns = {"time (ms)": number(format="%.4g"), "share": number(format="percent")}
    frame.table(rows, "money", columns=columns, shown={"$ of the whole run": "{:,.0f}".format})
    st.header("The step, stage by stage", anchor=False)
    st.caption(
        "A row is a stage of the pipeline, and stands for each of its ranks. Grey waits for other stages; `network` is "
        "what no computing hides." + (" Some stages or micro-batches are left out for their number." * found["cut"])
    )
    drawn = charts.stages(found["events"], found["seconds"], found["stages"])
    frame.chart(drawn, "stages", alt="What each stage of the pipeline does during the step")


def _plans(found: dict[str, Any]) -> None:
    st.header("The best plans and the front", anchor=False)
    rows = [
        {**row, "front": "yes" if row["front"] else "no", "tie": "tie" if row["tie"] else ""} for row in found["plans"]
    ]
    shown = {"seconds": duration, "tokens/s": si, "reserved": binary, "$ a billion tokens": "{:,.0f}".format}
    columns = {"MFU": st.column_config.NumberColumn(format="percent"), "seconds": st.column_config.Column("a step")}
    frame.table(rows, "best", columns=columns, shown=shown, height=320)
    st.caption("tie: the interval of the first does not tell it apart. front: none beats it in memory and in time.")
    ruled = [{"ruled out, as": why, "plans": count} for why, count in found["ruled"]]
    frame.table(ruled, "ruled-out", columns=frame.grouped("plans"), folded="What was ruled out")


def _launch(launch: dict[str, str], wanted: Wanted) -> None:
    st.header("The launch file", anchor=False)
    if launch["why"]:
        st.info(f"{wanted.tool} cannot launch it: {frame.verbatim(launch['why'])}")
        return
    st.caption(f"The best plan for {wanted.tool} {launch['version']}.")
    st.code(launch["text"], language=None, wrap_lines=True)
    st.download_button(
        "Save it", launch["text"].encode(), f"{wanted.tool}.txt", "text/plain", on_click="ignore", type="tertiary"
    )
