"""Model: what it is made of, what it computes, and what others would say of the same run."""

from __future__ import annotations

import shlex
from typing import Any, cast, get_args

import streamlit as st

from calc import conventions
from calc.architectures.models import preset_names
from calc.ask.anatomy import Frame, anatomy
from calc.ask.estimate import estimate
from calc.charts import axes, bars
from calc.charts.architecture import diagram
from calc.errors import Refused
from calc.spec import ModelSpec
from calc.spec.run import COUNTED_PHASES, Phase, Run, common_context
from calc.trace.op import Component
from calc.units import binary, si
from dashboard import frame, knobs, layout, model_conventions, model_layers, picker, saved
from dashboard.cache import cached
from dashboard.home import overview

NOBODY = "nothing"
PRODUCTS = ("linear", "attention", "other")
"""What every convention divides its FLOPs into."""


def render(picked: picker.Picked | None) -> None:
    """The page."""
    chosen = picker.wanted(picked)
    frame.header("Model", "What it is made of, what it computes, and what others would report for the same run.")
    # The answer stands above what it is asked of, which is drawn first.
    answer, controls = st.container(), st.container()
    with controls:
        st.header("What is counted", anchor=False)
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
        references = {name: name for name in models} | {chosen.spec.name: shlex.quote(chosen.reference)}
        refused = [name for name, spec in models.items() if counted(spec, query)["why"]]
        commands = _commands(references, refused, query)
        saved.about(saved.ANY, commands[0])
        with answer:
            st.info(overview(chosen.spec))
            path = _diagram(chosen, query)
            _figures(models, query)
            _drawn(query)
        if path:
            frame.go("formula", part=path)
        _parameters(models, query)
        _work(models, query)
        model_layers.draw(models, query)
        model_conventions.draw(chosen.spec, query, named=len(models) > 1)
        frame.command(*commands)


def _diagram(chosen: picker.Picked, query: Run) -> str | None:
    """The model as a picture; the path of the block that was clicked."""
    found = frames(chosen.spec, query)
    alt = "The residual stream of the model from top to bottom, with the blocks of each kind of layer beside it"
    return frame.chart(diagram(found), "architecture", alt=alt, picks="path")


def _drawn(query: Run) -> None:
    over = f"{query.seq:,} tokens" if query.phase != "decode" else f"one token after {query.context:,}"
    st.caption(
        f"Of a block: its shape, the parameters of one of it, and its FLOPs in {query.phase} of {query.batch:,} × "
        f"{over} as eager PyTorch runs them. A click opens its formula; every part is in the table of layers."
    )


@cached
def frames(spec: ModelSpec, query: Run) -> list[Frame]:
    """The model block by block."""
    return anatomy(spec, query)


def _phase(spec: ModelSpec) -> Phase:
    phases: list[Phase] = [name for name in COUNTED_PHASES if name != "decode" or spec.decodes]
    knobs.forget_stale("phase", phases)
    phase = st.segmented_control("What is run", phases, default="training", key="phase", required=True,
                                 bind="query-params")  # fmt: skip
    return cast(Phase, phase or "training")


def _query(spec: ModelSpec, phase: Phase) -> Run:
    left, right = st.columns(2)
    with left:
        seq = knobs.seq(spec)
    with right:
        batch = knobs.batch()
    with layout.fold("Counted how", "convention", "checkpointing"):
        left, right = st.columns(2)
        convention = left.selectbox(
            "FLOPs as counted by", [*conventions.BY_NAME], key="convention", bind="query-params",
            help="torch: what runs in eager PyTorch. The others are below, side by side",
        )  # fmt: skip
        with right:
            checkpointing = knobs.checkpointing() if phase == "training" else "none"
    images = knobs.images(spec) if phase != "decode" else 0
    named: dict[str, Any] = {} if convention == Run().convention else {"convention": convention}
    return Run(
        phase=phase,
        seq=seq,
        batch=batch,
        checkpointing=checkpointing,
        context=common_context([spec], seq),
        images=images,
        **named,
    )


def _commands(references: dict[str, str], refused: list[str], query: Run) -> list[str]:
    """The commands that print what the page shows, the one with the FLOPs first.

    references: a model's name -> what stands for it. refused: those whose FLOPs the convention does not count.
    """
    own = f"--phase {query.phase}"
    own += f" --context {query.context}" if query.phase == "decode" else f" --seq {query.seq}"
    own += f" --batch {query.batch}"
    own += f" --checkpointing {query.checkpointing}" * (query.checkpointing != "none")
    own += f" --images {query.images}" * (query.images != 0)
    every = " ".join(references.values())
    known = " ".join(word for name, word in references.items() if name not in refused)
    convention = f" --convention {query.convention}" * (query.convention != Run().convention)
    return [
        *[f"python -m calc flops {known} {own}{convention}"] * bool(known),
        f"python -m calc params {every}",
        f"python -m calc params {every} --by-path",
        f"python -m calc conventions --compare {next(iter(references.values()))} {own}",
        f"python -m calc report {every}",
    ]


@cached
def counted(spec: ModelSpec, query: Run) -> dict[str, Any]:
    """The figures of one model: parameters, active ones, FLOPs of the query, bytes of its cache.

    FLOPs are None, and `why` says it, where the query's convention has no word for such a model.
    """
    try:
        work, why = conventions.flops(spec, query), ""
    except Refused as refusal:
        work, why = None, str(refusal)
    cache = estimate(spec, "kv_cache", seq=query.seq, batch=query.batch).value if spec.decodes else None
    return {
        "parameters": estimate(spec, "params").value,
        "active": estimate(spec, "params.active").value,
        "FLOPs": None if work is None else work.total,
        "products": None if work is None else {name: getattr(work, name) for name in PRODUCTS},
        "why": why,
        "KV cache": cache,
    }


def _figures(models: dict[str, ModelSpec], query: Run) -> None:
    for place, (name, spec) in enumerate(models.items()):
        if len(models) > 1:
            st.markdown(frame.verbatim(name))
        own = counted(spec, query)
        with layout.cards(f"{place}"):
            frame.metric("Parameters", si(own["parameters"]), f"{own['parameters']:,}")
            frame.metric("Active a token", si(own["active"]), f"{own['active']:,}")
            if own["FLOPs"] is None:
                frame.metric(f"FLOPs, {query.phase}", "–", frame.verbatim(own["why"]))
            else:
                frame.metric(f"FLOPs, {query.phase}", si(own["FLOPs"], "FLOP"), f"{own['FLOPs']:,}")
            if own["KV cache"] is None:
                frame.metric("KV cache, bf16", "none")
            else:
                frame.metric("KV cache, bf16", binary(own["KV cache"]), f"{own['KV cache']:,} bytes")


def _parameters(models: dict[str, ModelSpec], query: Run) -> None:
    st.header("Parameters by component", anchor=False)
    rows = []
    for name, spec in models.items():
        whole = model_layers.parts(spec, query)[0]
        readings = {"all": whole.parameters}
        if whole.total_active != whole.total:
            readings["active"] = whole.active
        for reading, terms in readings.items():
            label = f"{name}, {reading}" if len(readings) > 1 else name
            rows += [
                {"model": label, "component": part, "parameters": float(n), "exact": n, "shown": f"{n:,}"}
                for part, n in terms.items()
            ]
    axis = axes.numbers("parameters", giga="B")
    drawn = bars.stacked(rows, "model", "component", "parameters", axis, get_args(Component))
    frame.chart(drawn, "parameters", alt="Parameters of each model, stacked by component")
    frame.table(
        [{"model": row["model"], "component": row["component"], "parameters": row["exact"]} for row in rows],
        "parameters",
        columns=frame.grouped("parameters"),
        folded="Table",
    )


def _work(models: dict[str, ModelSpec], query: Run) -> None:
    executed = query.convention == conventions.TORCH.name
    part = "component" if executed else "product"
    st.header(f"FLOPs by {part}, {query.phase}", anchor=False)
    st.caption(f"{query.convention}: {conventions.find(query.convention).title}. A multiply-add is two.")
    rows = []
    for name, spec in models.items():
        own = counted(spec, query)
        if own["why"]:
            st.info(f"{frame.verbatim(name)}: {frame.verbatim(own['why'])}")
        terms = model_layers.parts(spec, query)[0].flops if executed else own["products"] or {}
        rows += [
            {"model": name, part: term, "FLOP": float(n), "shown": si(n, "FLOP")} for term, n in terms.items() if n
        ]
    if not rows:
        return
    order = get_args(Component) if executed else PRODUCTS
    drawn = bars.stacked(rows, "model", part, "FLOP", axes.numbers("FLOP"), order)
    frame.chart(drawn, "flops", alt=f"FLOPs of each model, stacked by {part}")
    frame.table(
        [{key: row[key] for key in ("model", part, "FLOP")} for row in rows],
        "flops",
        columns=frame.grouped("FLOP"),
        folded="Table",
    )
