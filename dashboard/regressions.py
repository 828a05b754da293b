"""What became slower or faster from one commit to another: a part of the page Measured vs predicted."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import streamlit as st

from calc.errors import printable
from calc.units import duration
from dashboard import frame, measured_charts, results
from harness.diff import Change, Side, difference, latest
from harness.history import commits, levels
from harness.record import Run


def draw(runs: Sequence[Run]) -> list[str]:
    """Draw it; the commands that say the same."""
    device = _device(runs)
    own = [run for run in runs if run.environment.slug == device]
    names = commits(own)
    if len(names) < 2:
        frame.nothing_yet(
            "Results of one commit only: run the same cases at another one, and what became slower shows here."
        )
        return []
    if device is not None:
        st.caption(f"On {frame.verbatim(device)}.")
    frame.chart(measured_charts.levels(levels(own)), "commits", alt="Times of each kind of case, commit by commit.")
    left, right = st.columns(2)
    before = left.selectbox("From", names, index=len(names) - 2, key="before", bind="query-params")
    after = right.selectbox("To", names, index=len(names) - 1, key="after", bind="query-params")
    with frame.refusals("No comparison"):
        found = difference(_side(own, before), _side(own, after))
        figures = zip(st.columns(4), ("SLOWER", "SAME", "FASTER"), strict=False)
        for column, verdict in figures:
            with column:
                frame.metric(verdict.capitalize(), f"{found.count(verdict):,}", "Whether the medians' intervals meet")
        frame.table([_row(change) for change in found.changes], "changes", columns=_columns(), height=280)
    words = ["python", "-m", "harness", "diff", before, after, *shlex.split(results.option())]
    return [shlex.join([*words, *(["--device", device] if device else []), "--all"])]


def _device(runs: Sequence[Run]) -> str | None:
    """The device that was measured last: times of two are not one history."""
    return max(runs, key=lambda run: run.started).environment.slug if runs else None


def _side(runs: Sequence[Run], commit: str) -> Side:
    return Side("commit", commit, latest(run for run in runs if run.environment.commit == commit))


def _row(change: Change) -> dict[str, Any]:
    return {
        "": change.verdict,
        "ratio": change.ratio,
        "at least": change.low,
        "at most": change.high,
        "before": duration(change.before),
        "after": duration(change.after),
        "case": printable(change.case),
    }


def _columns() -> dict[str, Any]:
    return {name: st.column_config.NumberColumn(format="%.3f") for name in ("ratio", "at least", "at most")}
