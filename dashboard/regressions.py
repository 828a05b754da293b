"""What became slower or faster from one commit to another: a part of the page Measured vs predicted."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import streamlit as st

from calc.charts import commits as charts
from calc.errors import printable
from calc.units import duration
from dashboard import frame, layout, results, saved
from harness.diff import Change, Side, difference, latest
from harness.history import commits, levels
from harness.record import Run


def draw(runs: Sequence[Run]) -> list[str]:
    """Draw it; the commands that say the same."""
    device = _device(runs)
    own = [run for run in runs if run.environment.slug == device]
    names = commits(own)
    usual = _pair(own, names)
    if usual is None:
        frame.nothing_yet(
            "No case was measured at two commits: run the same ones at another, and what changed shows here."
        )
        return []
    if device is not None:
        st.caption(f"On {frame.verbatim(device)}.")
    saved.about(device or saved.ANY, f"python -m harness diff{results.option()}")
    frame.chart(charts.levels(levels(own)), "commits", alt="Times of each kind of case, commit by commit.")
    left, right = st.columns(2)
    before = left.selectbox("From", names, index=names.index(usual[0]), key="before", bind="query-params")
    after = right.selectbox("To", names, index=names.index(usual[1]), key="after", bind="query-params")
    with frame.refusals("No comparison"):
        found = difference(_side(own, before), _side(own, after))
        with layout.cards("commits"):
            for verdict in ("SLOWER", "SAME", "FASTER"):
                frame.metric(verdict.capitalize(), f"{found.count(verdict):,}", "Whether the medians' intervals meet")
        st.caption("A bar reaches as far as the noise of both measurements allows; one that crosses 1 × is no change.")
        drawn = charts.changes(found.changes)
        frame.chart(drawn, "changed", alt="Time after over time before of the cases that changed most, with noise.")
        frame.table([_row(change) for change in found.changes], "changes", columns=_columns(), height=280)
        words = ["python", "-m", "harness", "diff", before, after, *shlex.split(results.option())]
        return [shlex.join([*words, *(["--device", device] if device else []), "--all"])]
    return []


def _pair(runs: Sequence[Run], names: Sequence[str]) -> tuple[str, str] | None:
    """The latest two commits that measured a case in common; None where there are none."""
    cases: dict[str | None, set[str]] = {}
    for run in runs:
        cases.setdefault(run.environment.commit, set()).add(run.case)
    pairs = ((before, after) for after, before in combinations(reversed(names), 2))
    return next((pair for pair in pairs if cases[pair[0]] & cases[pair[1]]), None)


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
