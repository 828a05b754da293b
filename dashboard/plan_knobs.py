"""The knobs of the page Plan: what is trained, on how many GPUs of which cluster, and what a plan may be."""

from __future__ import annotations

from typing import Any

import streamlit as st

from calc.plan.export.registry import TOOLS
from calc.plan.objective import OBJECTIVES
from calc.spec import ModelSpec
from calc.spec.clusters import cluster_names, load_cluster
from dashboard import knobs
from dashboard.planned import Wanted

CLUSTER, TOOL = "dgx-h100", "torchtitan"
GPUS = tuple(2**power for power in range(13))
USUAL_GPUS = 64
SEQUENCES = tuple(2**power for power in range(15))
USUAL_SEQUENCES = 256
BILLIONS = tuple(n * 10**power for power in range(5) for n in (1, 2, 5))
TOKENS = 1000
"""Billions of tokens of the whole run."""
ANY = "any"
SIZES = (1, 2, 4, 8, 16, 32)
BOUNDED = {"tp": "TP at most", "pp": "PP at most", "cp": "CP at most"}
CHECKPOINTING = ("none", "selective", "selective-op", "full")


def ask(spec: ModelSpec) -> Wanted:
    """Draw the knobs; what they say."""
    st.header("What is planned", anchor=False)
    one, two, three = st.columns(3)
    clusters = [name for name in cluster_names() if not load_cluster(name).gpu.startswith("tpu")]
    cluster = one.selectbox("Cluster", clusters, clusters.index(CLUSTER), key="cluster", bind="query-params")
    with two:
        gpus = _slider("GPUs", "gpus", GPUS, USUAL_GPUS, GPUS[-1])
        price = knobs.price()
    with three:
        seq = knobs.seq(spec)
        sequences = _slider("Sequences of a step", "sequences", SEQUENCES, USUAL_SEQUENCES, SEQUENCES[-1])
    tool = one.selectbox("Launched by", [*TOOLS], [*TOOLS].index(TOOL), key="tool", bind="query-params")
    with st.expander("Filters, and the whole run"):
        fixed, bounded, headroom, objective, tokens = _filters()
    return Wanted(cluster, gpus, seq, sequences, tool, price, tokens, objective, headroom, fixed, bounded)


def _slider(label: str, key: str, stops: tuple[int, ...], usual: int, most: int) -> int:
    options = knobs.holding(key, stops, most)
    return int(st.select_slider(label, options, usual, key=key, bind="query-params"))


def _filters() -> tuple[tuple[tuple[str, Any], ...], tuple[tuple[str, int], ...], int, Any, int]:
    """(what must be so, what may not be larger, per cent of memory left free, objective, billions of tokens)"""
    cells = st.columns(4)
    bounded: list[tuple[str, int]] = []
    for cell, (name, label) in zip(cells, BOUNDED.items(), strict=False):
        most = cell.selectbox(label, [ANY, *SIZES], key=f"{name}_most", bind="query-params")
        if most != ANY:
            bounded.append((name, int(most)))
    checkpointing = cells[3].selectbox("Checkpointing", [ANY, *CHECKPOINTING], key="kept", bind="query-params")
    cells = st.columns(3)
    headroom = cells[0].select_slider("Memory left free, %", [0, 5, 10, 20, 30], key="headroom", bind="query-params")
    objective = cells[1].segmented_control(
        "Least", OBJECTIVES, default="time", key="least", required=True, bind="query-params"
    )
    with cells[2]:
        tokens = _slider("Tokens of the whole run, billions", "billions", BILLIONS, TOKENS, 10**6)
    fixed = (("checkpointing", checkpointing),) if checkpointing != ANY else ()
    return fixed, tuple(bounded), int(headroom), objective or "time", int(tokens)
