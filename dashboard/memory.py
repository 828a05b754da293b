"""Memory: what a GPU holds, when it holds the most, on which GPUs that fits, and the cache as contexts grow."""

from __future__ import annotations

import shlex
from typing import Any

import streamlit as st

from calc.architectures.models import preset_names
from calc.ask.variants import attention_variants
from calc.charts import memory as charts
from calc.errors import Refused
from calc.memory.advice import Change, changes
from calc.memory.verdict import Verdict, verdict
from calc.quantities.kv_cache import kv_cache
from calc.spec import ModelSpec
from calc.spec.catalogue import device_names, load_device
from calc.spec.run import Run
from calc.units import binary
from dashboard import fitting_grid, frame, layout, picker, planning, remedies, saved
from dashboard.cache import cached
from dashboard.home import COMPARED
from dashboard.shared import share

GPU = "h100-sxm"
"""The device that is chosen at first."""
CONTEXTS = tuple(2**power for power in range(7, 21))
"""Tokens of the curves of the cache."""


def render(picked: picker.Picked | None) -> None:
    """The page."""
    chosen = picker.wanted(picked)
    frame.header(
        "Memory", "What one GPU holds in a training step or in serving, when it holds the most, and where it fits."
    )
    # The answer stands above what it is asked of, which is drawn first.
    answer, controls = st.container(), st.container()
    with frame.refusals("This plan cannot be counted"):
        with controls:
            st.header("The plan", anchor=False)
            share("gpu", gpus(), GPU)
            gpu = st.selectbox("GPU", gpus(), index=gpus().index(GPU), key="gpu", bind="query-params")
            request = planning.requested(chosen.spec)
        found = judged(chosen.spec, request.run, gpu)
        words = shlex.join([chosen.reference, *request.flags, "--gpu", gpu])
        saved.about(gpu, f"python -m calc memory {words}")
        advice = advised(chosen.spec, request.run, found.budget or 0)
        with answer:
            _sentence(found)
            picture, figures = layout.side_by_side()
            with picture:
                _picture(found, gpu)
            with figures:
                _figures(chosen.spec, found, request.run)
                if not found.fits:
                    remedies.draw(advice)
            _terms(found)
        _timeline(found, gpu)
        if found.fits:
            remedies.draw(advice)
        _advice(advice)
        fitting_grid.draw(chosen.spec, request.run, gpu)
        frame.command(f"python -m calc memory {words}", f"python -m calc memory {words} --json")
    if chosen.spec.decodes and chosen.spec.reads_tokens:
        with frame.refusals("The cache cannot be counted"):
            _caches(chosen)


def gpus() -> list[str]:
    """The GPUs of the catalogue, the smallest memory first; TPUs run other kernels."""
    devices = [each for each in map(load_device, device_names()) if not each.architecture.startswith("TPU")]
    return [each.name for each in sorted(devices, key=lambda each: (each.usable, each.name))]


@cached
def judged(spec: ModelSpec, query: Run, gpu: str) -> Verdict:
    """What the plan takes beside the memory of one GPU."""
    device = load_device(gpu)
    return verdict(spec, query, device.usable, f"{device.name} ({binary(device.usable)})")


@cached
def advised(spec: ModelSpec, query: Run, budget: int) -> list[Change]:
    """What would lower the peak."""
    return changes(spec, query, budget)


@cached
def caches(spec: ModelSpec, dtype: str) -> list[dict[str, Any]]:
    """The cache of one sequence over its length, of the model and of the same model with other attention."""
    kinds = {"as it is": spec, **attention_variants(spec)}
    return [
        {"attention": name, "context": n, "bytes": kv_cache(each, 1, n, dtype).total_bytes}
        for name, each in kinds.items()
        for n in CONTEXTS
    ]


def _sentence(found: Verdict) -> None:
    sentence = found.sentence()
    (st.success if found.fits else st.error)(f"{sentence[:1].upper()}{sentence[1:]}.")


def _figures(spec: ModelSpec, found: Verdict, query: Run) -> None:
    worst = found.worst
    with layout.cards():
        frame.metric("Peak of a GPU", binary(worst.peak), f"{worst.peak:,} bytes")
        frame.metric("All terms", binary(worst.total), f"{worst.total:,} bytes, whenever each is live")
        left = found.left or 0
        frame.metric("Left" if left >= 0 else "Too much", binary(abs(left)), f"{left:,} bytes")
        frame.metric("GPUs of the plan", f"{query.gpus:,}")
        if query.mode == "inference":
            count = fitting_grid.most(spec, query, found.budget or 0)
            shown = "Any number" if count is None else f"{count:,}"
            frame.metric("Sequences that fit", shown, "With the same plan and length")


def _picture(found: Verdict, gpu: str) -> None:
    capacities = {name: load_device(name).usable for name in gpus() if name in (*COMPARED, gpu)}
    worst = found.worst
    drawn = charts.memory_against_gpus(dict(worst.terms), dict(found.live), worst.peak, capacities, gpu)
    frame.chart(drawn, "memory", alt="Memory by term against the memory of each GPU")
    st.caption("Above, the terms all added up and what is live at the peak; below, the memory that each GPU gives.")


def _terms(found: Verdict) -> None:
    worst, live = found.worst, found.live
    names = dict.fromkeys([*worst.terms, *live])
    rows = [
        {
            "term": name,
            "bytes": worst.terms.get(name),
            "size": binary(worst.terms[name]) if name in worst.terms else "",
            "live at the peak": live.get(name, 0),
        }
        for name in names
    ]
    frame.table(rows, "terms", columns=frame.grouped("bytes", "live at the peak"), folded="Table")
    if len(found.ranks) > 1:
        ranks = [
            {"rank": rank.stage, **{name: binary(size) for name, size in rank.terms.items()}, "peak": binary(rank.peak)}
            for rank in found.ranks
        ]
        frame.table(ranks, "ranks")


def _timeline(found: Verdict, gpu: str) -> None:
    st.header("A step, moment by moment", anchor=False)
    st.caption(f"The most is live at: {found.moment}. The dashed line is the memory of {gpu}.")
    moments = {name: dict(live) for name, live in found.worst.moments.items()}
    frame.chart(charts.timeline(moments, found.budget or 0, gpu), "timeline", alt="Memory live at each moment")
    rows = [
        {"moment": name, **live, "live": found.worst.timeline[name], "peak": "peak" if name == found.moment else ""}
        for name, live in moments.items()
    ]
    columns = frame.grouped(*(name for name in rows[0] if name not in ("moment", "peak")))
    frame.table(rows, "timeline", columns=columns, folded="Table")


def _advice(advice: list[Change]) -> None:
    if not advice:
        return
    rows = [
        {
            "change": each.name,
            "option": each.options,
            "saves": each.saved,
            "peak": each.peak,
            "FLOPs": f"{each.flops:+.0%}",
            "GPUs": each.gpus,
            "fits": "yes" if each.fits else "no",
        }
        for each in advice
    ]
    frame.table(rows, "advice", shown={"saves": binary, "peak": binary}, folded="All that would lower the peak")


def _caches(chosen: picker.Picked) -> None:
    st.header("KV cache as the context grows", anchor=False)
    st.caption("One sequence in bf16: this model, the same with other kinds of attention, and presets beside it.")
    with layout.fold("Presets beside it", "beside"):
        presets = st.multiselect("Presets", preset_names(), key="beside", bind="query-params", max_selections=4)
    rows = [{"model": f"{chosen.spec.name}: {row['attention']}", **row} for row in caches(chosen.spec, "bf16")]
    for name in presets:
        other = picker.read("preset", name, name)
        if not (other.decodes and other.reads_tokens):
            raise Refused("preset", "a model that goes on token by token", name)
        own = [row for row in caches(other, "bf16") if row["attention"] == "as it is"]
        rows += [{"model": name, **row} for row in own if name != chosen.spec.name]
    command = f"python -m calc kv-cache {shlex.join([chosen.reference, *presets])} --seq {CONTEXTS[-1]}"
    saved.about(saved.ANY, command)
    frame.chart(charts.caches(rows), "kv-cache", alt="Bytes of the KV cache over the length of the context")
    frame.table(
        [{name: row[name] for name in ("model", "context", "bytes")} for row in rows],
        "kv-cache",
        columns=frame.grouped("context", "bytes"),
        height=250,
        folded="Table",
    )
    frame.command(command, part="caches")
