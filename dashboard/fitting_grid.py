"""The part of the page Memory that shows what fits: over lengths and batches, and over models and GPUs."""

from __future__ import annotations

from typing import Any

import streamlit as st

from calc.architectures.models import load_model
from calc.charts import memory as charts
from calc.errors import Refused
from calc.memory.serving import max_batch
from calc.memory.totals import memory_ranks, plan_needs
from calc.spec import ModelSpec
from calc.spec.catalogue import load_device
from calc.spec.run import Run, common_length
from dashboard import frame
from dashboard.cache import cached
from dashboard.home import COMPARED

LENGTHS = (512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
MODELS = ("llama-3.2-1b", "llama-3-8b", "gpt-oss-20b", "qwen3-32b", "llama-3-70b", "gpt-oss-120b", "deepseek-v3")
"""Presets that stand below the model that is picked."""


def draw(spec: ModelSpec, query: Run, gpu: str) -> None:
    """Draw it."""
    st.header("What fits", anchor=False)
    st.caption(f"The same plan at other lengths and batches on {gpu}: its peak, and on a phone its part of the memory.")
    # Length and batch are those of the grid: without them one answer serves all that a slider is moved to.
    same = query.changed(seq=_lengths(spec)[-1], batch=BATCHES[0])
    rows = over_lengths(spec, same, load_device(gpu).usable)
    alt = "Whether each length and batch fits the GPU"
    frame.chart(charts.grid(rows, "seq", "batch", ("tokens of a sequence", "sequences")), "fits", alt=alt)
    st.caption("The same plan for other models, each at its usual length where that is shorter, on other GPUs.")
    rows = over_models(spec, query, (*COMPARED, *([gpu] if gpu not in COMPARED else [])))
    frame.chart(
        charts.grid(rows, "gpu", "model", ("GPU", "model")), "fits-models", alt="Whether each model fits each GPU"
    )


@cached
def over_lengths(spec: ModelSpec, query: Run, capacity: int) -> list[dict[str, Any]]:
    """The peak at each length and batch, whatever those of `query` are. Errors: as `plan_needs`."""
    import numpy as np

    seqs, batches = (np.ravel(each) for each in np.meshgrid(_lengths(spec), BATCHES))
    peaks = np.broadcast_to(plan_needs(spec, query.placed({"seq": seqs, "batch": batches})).peak, seqs.shape)
    return [
        {"seq": int(seq), "batch": int(batch), "peak": None if np.isnan(peak) else int(peak), "capacity": capacity}
        for seq, batch, peak in zip(seqs, batches, peaks, strict=True)
    ]


def _lengths(spec: ModelSpec) -> list[int]:
    longest = spec.max_seq_len or LENGTHS[-1]
    return [seq for seq in LENGTHS if seq <= longest] or [longest]


@cached
def over_models(spec: ModelSpec, query: Run, gpus: tuple[str, ...]) -> list[dict[str, Any]]:
    """The peak of each model beside the memory of each GPU; None where the plan does not divide it."""
    rows = []
    for name in (spec.name, *(name for name in MODELS if name != spec.name)):
        peak = _peak(spec, query) if name == spec.name else _of_preset(name, query)
        rows += [{"model": name, "gpu": gpu, "peak": peak, "capacity": load_device(gpu).usable} for gpu in gpus]
    return rows


@cached
def most(spec: ModelSpec, query: Run, capacity: int) -> int | None:
    """The most sequences of a server whose peak fits; 0 where not even one does, None where any number does.

    Errors: as `max_batch`, which tries a few batches alone: each is a pass of its own to record.
    """
    return max_batch(spec, query, capacity)


@cached
def _of_preset(name: str, query: Run) -> int | None:
    """Kept by its name, so that visitors with other models share it."""
    return _peak(load_model(name), query)


def _peak(spec: ModelSpec, query: Run) -> int | None:
    try:
        ranks = memory_ranks(
            spec, query.changed(seq=min(query.seq or common_length([spec]), spec.max_seq_len or 2**30))
        )
        return max(int(rank.peak) for rank in ranks)
    except Refused:
        return None
