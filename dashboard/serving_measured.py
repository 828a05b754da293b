"""Servers that were measured, beside what was predicted of them: a part of the page Serve."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import streamlit as st

from calc.charts import serving as charts
from calc.errors import printable
from calc.units import duration, si
from dashboard import frame, results, saved
from harness.store import lines

LATENCIES = ("ttft", "tpot", "e2e")
PARTS = ("mean", "p50", "p90", "p99")


def draw() -> None:
    """The latest measurement of each device among the results."""
    st.header("Servers that were measured", anchor=False)
    found = [one for path in sorted(results.folder().glob("serving/*/")) if (one := _latest(path)) is not None]
    if not found:
        launch = "python -m harness serve --launch transformers --model tiny --profile PROFILE.json --dtype fp32"
        frame.nothing_yet(f"None among the results yet: `{launch}{results.option()}` measures one.")
    for device, started, rows in found:
        st.markdown(f"{frame.verbatim(device)}, measured {frame.verbatim(started)}")
        drawn = [
            {
                **row,
                "predicted": _shown(row["figure"], row["predicted"]),
                "measured": _shown(row["figure"], row["measured"]),
            }
            for row in rows
        ]
        saved.about(device, "")
        frame.chart(
            charts.measured_over_predicted(drawn), f"server-{device}", alt="Measured over predicted, figure by figure"
        )
        frame.table(rows, f"server-{device}", columns={"ratio": st.column_config.NumberColumn(format="%.3f")})


def _shown(figure: str, value: float) -> str:
    return f"{si(value)} tokens/s" if figure == "throughput" else duration(value)


def _latest(folder: Path) -> tuple[str, str, list[dict[str, Any]]] | None:
    """(device, time, rows) of the last line that can be read; None where there is none."""
    for path in sorted(folder.glob("*.jsonl"), reverse=True):
        try:
            texts = [text for _, text in lines(path)]
        except OSError:
            continue
        for text in reversed(texts):
            rows = _rows(text)
            if rows:
                return printable(folder.name), printable(str(json.loads(text).get("started", "")))[:40], rows
    return None


def _rows(text: bytes) -> list[dict[str, Any]]:
    """What both have figures of; nothing where a line is no such result."""
    try:
        compared = json.loads(text)["compared"]
        pairs = [
            (f"{name} {part}", compared[name]["predicted"][part], compared[name]["measured"][part])
            for name in LATENCIES
            for part in PARTS
        ]
        pairs.append(("throughput", compared["throughput"]["predicted"], compared["throughput"]["measured"]))
        return [
            {
                "figure": figure,
                "predicted": float(predicted),
                "measured": float(measured),
                "ratio": measured / predicted,
            }
            for figure, predicted, measured in pairs
            if measured > 0 and predicted > 0
        ]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
