"""Model: what it is made of, what it computes, and what others would say of the same run."""

from __future__ import annotations

import shlex
from typing import Any, cast, get_args

import streamlit as st

from calc import conventions
from calc.estimation import estimate
from calc.models import preset_names
from calc.op import Component
from calc.parts import LayerRow, PartRow, layer_rows, part_rows
from calc.query import PHASES, Phase, Query, common_context
from calc.spec import ModelSpec
from calc.units import binary, si
from dashboard import frame, knobs, model_conventions, picker, vega
from dashboard.cache import cached

LAYERS = 256
"""The most layers that are drawn one by one."""
NOBODY = "nothing"


def render(picked: picker.Picked | None) -> None:
    """The page."""
    chosen = picker.wanted(picked)
    frame.header("Model", "What it is made of, what it computes, and what others would report for the same run.")
    first, second = st.columns(2)
    with first:
        phase = _phase(chosen.spec)
    with second:
        other = st.selectbox("Compare with", [NOBODY, *preset_names()], key="other", bind="query-params")
    query = _query(chosen.spec, phase)
    models = {chosen.spec.name: chosen.spec}
    if other != NOBODY:
        models.setdefault(other, picker.read("preset", other, other))
    with frame.refusals("This model cannot be counted so"):
        _figures(models, query)
        _parameters(models, query)
        _work(models, query)
        _layers(chosen.spec, query)
        model_conventions.draw(chosen.spec, query)
    references = [shlex.quote(chosen.reference), *([] if other in (NOBODY, chosen.reference) else [other])]
    frame.command(*_commands(references, query))


def _phase(spec: ModelSpec) -> Phase:
    phases: list[Phase] = [name for name in PHASES if name != "decode" or spec.decodes]
    knobs.kept("phase", phases)
    phase = st.segmented_control("What is run", phases, default="training", key="phase", required=True,
                                 bind="query-params")  # fmt: skip
    return cast(Phase, phase or "training")


def _query(spec: ModelSpec, phase: Phase) -> Query:
    cells = st.columns(3)
    with cells[0]:
        seq = knobs.seq(spec)
    with cells[1]:
        batch = knobs.batch()
    with cells[2]:
        checkpointing = knobs.checkpointing() if phase == "training" else "none"
    return Query(phase=phase, seq=seq, batch=batch, checkpointing=checkpointing, context=common_context([spec], seq))


def _commands(references: list[str], query: Query) -> list[str]:
    """The commands that print what the page shows, the one with the FLOPs first."""
    own = f"--phase {query.phase}"
    own += f" --context {query.context}" if query.phase == "decode" else f" --seq {query.seq}"
    own += f" --batch {query.batch}"
    own += f" --checkpointing {query.checkpointing}" * (query.checkpointing != "none")
    every = " ".join(references)
    return [
        f"python -m calc flops {every} {own}",
        f"python -m calc params {every}",
        f"python -m calc conventions --compare {references[0]} {own}",
        f"python -m calc report {every}",
    ]


@cached
def counted(spec: ModelSpec, query: Query) -> dict[str, Any]:
    """The figures of one model: parameters, active ones, FLOPs of the query, bytes of its cache."""
    cache = estimate(spec, "kv_cache", seq=query.seq, batch=query.batch).value if spec.decodes else None
    return {
        "parameters": estimate(spec, "params").value,
        "active": estimate(spec, "params.active").value,
        "FLOPs": conventions.flops(spec, query).total,
        "per token": conventions.flops(spec, query).per_token(query.tokens) if spec.reads_tokens else None,
        "KV cache": cache,
    }


@cached
def parts(spec: ModelSpec, query: Query) -> list[PartRow]:
    """Every part of the model."""
    return part_rows(spec, query)


@cached
def layers(spec: ModelSpec, query: Query) -> list[LayerRow]:
    """Every layer of the model."""
    return layer_rows(spec, query)


def _figures(models: dict[str, ModelSpec], query: Query) -> None:
    for name, spec in models.items():
        if len(models) > 1:
            st.markdown(frame.verbatim(name))
        own = counted(spec, query)
        cells = st.columns(4)
        with cells[0]:
            frame.metric("Parameters", si(own["parameters"]), f"{own['parameters']:,}")
        with cells[1]:
            frame.metric("Active a token", si(own["active"]), f"{own['active']:,}")
        with cells[2]:
            frame.metric(f"FLOPs, {query.phase}", si(own["FLOPs"], "FLOP"), f"{own['FLOPs']:,}")
        with cells[3]:
            if own["KV cache"] is None:
                frame.metric("KV cache, bf16", "none")
            else:
                frame.metric("KV cache, bf16", binary(own["KV cache"]), f"{own['KV cache']:,} bytes")


def _parameters(models: dict[str, ModelSpec], query: Query) -> None:
    st.subheader("Parameters by component", anchor=False)
    rows = []
    for name, spec in models.items():
        whole = parts(spec, query)[0]
        readings = {"all": whole.parameters}
        if whole.total_active != whole.total:
            readings["active"] = whole.active
        for reading, terms in readings.items():
            label = f"{name}, {reading}" if len(readings) > 1 else name
            rows += [
                {"model": label, "component": part, "parameters": float(n), "exact": n, "shown": f"{n:,}"}
                for part, n in terms.items()
            ]
    axis = vega.numbers("parameters", giga="B")
    drawn = vega.stacked(rows, "model", "component", "parameters", axis, get_args(Component))
    frame.chart(drawn, "parameters", alt="Parameters of each model, stacked by component")
    frame.table(
        [{"model": row["model"], "component": row["component"], "parameters": row["exact"]} for row in rows],
        "parameters",
        columns=frame.grouped("parameters"),
        folded="Table",
    )


def _work(models: dict[str, ModelSpec], query: Query) -> None:
    st.subheader(f"FLOPs by component, {query.phase}", anchor=False)
    st.caption("Every product that runs in eager PyTorch, a multiply-add as two; causal attention as the full square.")
    rows = [
        {"model": name, "component": part, "FLOP": float(n), "shown": si(n, "FLOP")}
        for name, spec in models.items()
        for part, n in parts(spec, query)[0].flops.items()
    ]
    drawn = vega.stacked(rows, "model", "component", "FLOP", vega.numbers("FLOP"), get_args(Component))
    frame.chart(drawn, "flops", alt="FLOPs of each model, stacked by component")
    frame.table(
        [{key: row[key] for key in ("model", "component", "FLOP")} for row in rows],
        "flops",
        columns=frame.grouped("FLOP"),
        folded="Table",
    )


def _layers(spec: ModelSpec, query: Query) -> None:
    st.subheader("Layer by layer", anchor=False)
    found = layers(spec, query)
    what = st.segmented_control(
        "Show", ["parameters", "active", "FLOPs"], default="parameters", key="by", required=True, bind="query-params"
    )
    shown = found[:LAYERS]
    if len(found) > LAYERS:
        st.caption(f"The first {LAYERS} of {len(found):,} layers.")
    terms = {"parameters": "parameters", "active": "active", "FLOPs": "flops"}[what or "parameters"]
    unit = "FLOP" if terms == "flops" else ""
    rows = [
        {
            "layer": f"{layer.stack} {layer.number}".strip() if layer.stack else layer.number,
            "kind": layer.kind,
            "component": part,
            "value": float(n),
            "shown": si(n, unit),
        }
        for layer in shown
        for part, n in getattr(layer, terms).items()
    ]
    title = f"{what} of one layer"
    axis = vega.numbers(title, giga="G" if unit else "B")
    if rows:
        frame.chart(vega.columns(rows, "layer", "component", "value", axis, get_args(Component)), "layers", alt=title)
    table = [
        {
            "part": "\u2003" * row.depth + row.path,
            "runs": row.calls,
            "parameters": row.total,
            "active": row.total_active,
            "FLOP": float(row.total_flops),
        }
        for row in parts(spec, query)
    ]
    frame.table(
        table, "parts", columns=frame.grouped("runs", "parameters", "active", "FLOP"), height=300, folded="Every part"
    )
