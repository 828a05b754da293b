"""The page Measured vs predicted: how far forecasts were from what was then measured, and the button that measures."""

from __future__ import annotations

import shlex
from typing import Any

import streamlit as st

from dashboard import comparison, frame, layout, picker, regressions, results, running, saved
from harness.cli.selection import fits
from harness.compare import BY, By, Comparison, compare
from harness.record import Run

LEAD = "One ratio, measured over predicted: at 1 × the forecast was right, at 2 × it took twice as long."
SHOWN_FAULTS = 5
FILTERS = ("device", "model", "backend", "suite", "commit")


def render(picked: picker.Picked | None) -> None:
    """Draw the page. It shows results of all models, whichever is picked."""
    frame.header("Measured vs predicted", LEAD)
    # What was found stands above the button that measures, and above what chooses among it.
    answer, controls = st.container(), st.container()
    with controls:
        running.panel()
    everything = results.load()
    if everything.runs:
        with frame.refusals("This cannot be compared"):
            _results(everything.runs, answer, controls)
    else:
        frame.nothing_yet(
            f"No results for this machine yet: press Run, or `python -m harness run{results.option()}` in a terminal."
        )
    _faults(everything)


def _results(runs: tuple[Run, ...], answer: Any, controls: Any) -> None:
    with controls:
        wanted, by, every, unstable = _filters(runs)
    chosen = [run for run in runs if fits(run, **wanted)]
    found = compare(chosen, by, every, unstable=unstable)
    options = "".join(f" --{name} {shlex.quote(value)}" for name, value in wanted.items() if value is not None)
    compared = f"python -m harness compare{results.option()}{options} --by {by}"
    compared += (" --every" if every else "") + (" --unstable" if unstable else "")
    devices = sorted({pair.device for pair in found.pairs})
    saved.about(", ".join(devices), compared)
    if found.pairs:
        with answer:
            comparison.draw(found, by)
        comparison.details(found, by)
    else:
        _no_pairs(found)
    _left_out(found)
    _fleet(chosen)
    st.header("From commit to commit", anchor=False)
    changed = regressions.draw(chosen)
    frame.command(compared, *changed)


def _no_pairs(found: Comparison) -> None:
    """What to do where nothing can be compared."""
    if "not ok: unstable" in found.left_out:
        frame.nothing_yet(
            "All times here moved too much to be relied on: measure again on a machine that has nothing else to do, or "
            "switch on `Unstable times too` under `Which results`."
        )
    else:
        frame.nothing_yet(
            "No case here has both times: predictions need a profile of the machine. Tick `Profile first` "
            f"under `Which cases` and press Run, or `python -m harness profile{results.option()}` in a terminal."
        )


def _filters(runs: tuple[Run, ...]) -> tuple[dict[str, Any], By, bool, bool]:
    """(what is asked of a run, what makes a group, whether older runs count too, whether unstable ones do)."""
    values = {
        "device": results.distinct(run.environment.slug for run in runs),
        "model": results.distinct(_text(run.params.get("model")) for run in runs),
        "backend": results.distinct(_text(run.params.get("backend")) for run in runs),
        "suite": results.distinct(run.suite for run in runs),
        "commit": results.distinct(run.environment.commit for run in runs),
    }
    by: By | None = st.segmented_control(
        "Coloured by", BY, default="kind", required=True, key="by", bind="query-params"
    )
    wanted: dict[str, Any] = {}
    with layout.fold("Which results", "every", "unstable", *(f"of_{name}" for name in FILTERS)):
        for column, name in zip(st.columns(len(FILTERS)), FILTERS, strict=True):
            key = f"of_{name}"
            wanted[name] = column.selectbox(
                name.capitalize(), values[name], index=None, key=key, bind="query-params", placeholder="all"
            )
        left, right = st.columns(2)
        every = left.toggle(
            "Older runs too", key="every", bind="query-params", help="Else the latest run of each case on each device"
        )
        unstable = right.toggle(
            "Unstable times too",
            key="unstable",
            bind="query-params",
            help="Times that moved too much to be relied on, as on a machine that has other work",
        )
    return wanted, by or "kind", every, unstable


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _fleet(runs: list[Run]) -> None:
    """Every device whose results stand in the folder, where there are several: a fleet's on shared storage."""
    of: dict[str, list[Run]] = {}
    for run in runs:
        of.setdefault(run.environment.slug, []).append(run)
    if len(of) < 2:
        return
    st.header("Devices", anchor=False)
    rows = [
        {
            "device": slug,
            "runs": len(own),
            "ok": sum(run.status == "ok" for run in own),
            "suites": ", ".join(sorted({run.suite for run in own})),
            "last": max(run.started for run in own),
        }
        for slug, own in sorted(of.items())
    ]
    frame.table(rows, "fleet")


def _left_out(found: Comparison) -> None:
    if found.left_out:
        each = ", ".join(f"{count:,} {reason}" for reason, count in sorted(found.left_out.items()))
        st.caption(f"Left out: {frame.verbatim(each)}")


def _faults(everything: results.Results) -> None:
    """Lines that are no results are named, as on the command line."""
    for fault in everything.faults[:SHOWN_FAULTS]:
        st.caption(f"Passed over: {frame.verbatim(str(fault))}")
    if len(everything.faults) > SHOWN_FAULTS:
        st.caption(f"Passed over {len(everything.faults) - SHOWN_FAULTS:,} more lines.")
