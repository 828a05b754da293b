"""The part of the page Model that goes through each model layer by layer."""

from __future__ import annotations

from typing import get_args

import streamlit as st

from calc.ask.parts import LayerRow, PartRow, layer_rows, part_rows
from calc.charts import axes, bars
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.trace.op import Component
from calc.units import si
from dashboard import frame
from dashboard.cache import cached

LAYERS = 256
"""The most layers that are drawn one by one."""
TERMS = {"parameters": "parameters", "active": "active", "FLOPs": "flops"}
"""What is shown -> the field of a layer that holds it."""


@cached
def layers(spec: ModelSpec, query: Run) -> list[LayerRow]:
    """Every layer of the model."""
    return layer_rows(spec, query)


@cached
def parts(spec: ModelSpec, query: Run) -> list[PartRow]:
    """Every part of the model, with the FLOPs that run in eager PyTorch."""
    return part_rows(spec, query)


def draw(models: dict[str, ModelSpec], query: Run) -> None:
    """Draw it: for each model its layers, stacked by component, and a table of its parts."""
    st.header("Layer by layer", anchor=False)
    what = st.segmented_control("Show", [*TERMS], default="parameters", key="by", required=True, bind="query-params")
    if what == "FLOPs":
        st.caption("As they run in eager PyTorch, under every convention: no other divides its FLOPs by layer.")
    every = [layer for spec in models.values() for layer in layers(spec, query)[:LAYERS]]
    most = max((float(sum(getattr(layer, TERMS[what or "parameters"]).values())) for layer in every), default=1.0)
    for place, (name, spec) in enumerate(models.items()):
        suffix = f"-{place + 1}" if place else ""
        if len(models) > 1:
            st.markdown(frame.verbatim(name))
        _layers(layers(spec, query), what or "parameters", most, suffix)
        _parts(parts(spec, query), suffix)


def _layers(found: list[LayerRow], what: str, most: float, suffix: str) -> None:
    if len(found) > LAYERS:
        st.caption(f"The first {LAYERS} of {len(found):,} layers.")
    unit = "FLOP" if what == "FLOPs" else ""
    rows = [
        {
            "layer": f"{layer.stack} {layer.number}".strip() if layer.stack else layer.number,
            "component": part,
            "value": float(n),
            "shown": si(n, unit),
        }
        for layer in found[:LAYERS]
        for part, n in getattr(layer, TERMS[what]).items()
    ]
    if not rows:
        return
    title = f"{what} of one layer"
    axis = axes.numbers(title, giga="G" if unit else "B")
    drawn = bars.columns(rows, "layer", "component", "value", axis, get_args(Component), most)
    frame.chart(drawn, f"layers{suffix}", alt=title)


def _parts(found: list[PartRow], suffix: str) -> None:
    table = [
        {
            "part": "\u2003" * row.depth + row.path,
            "runs": row.calls,
            "parameters": row.total,
            "active": row.total_active,
            "FLOP": float(row.total_flops),
        }
        for row in found
    ]
    columns = frame.grouped("runs", "parameters", "active", "FLOP")
    frame.table(table, f"parts{suffix}", columns=columns, height=300, folded="Every part")
