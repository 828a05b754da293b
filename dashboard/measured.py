"""The page Measured vs predicted: how far forecasts were from what was then measured, and the button that measures."""

from __future__ import annotations

import shlex
from collections import Counter
from datetime import datetime
from typing import Any

import streamlit as st

from calc.charts import measured as charts
from calc.errors import printable
from calc.units import duration
from dashboard import frame, picker, regressions, results, running
from dashboard.knobs import forget_stale
from harness.cli.selection import fits
from harness.compare import BY, By, Comparison, Group, Pair, compare
from harness.environment import likely_slug
from harness.record import Run

LEAD = (
    "Each case was predicted before it was measured. On the line, both times are equal; within the band, they are at "
    "most 10 % apart."
)
SHOWN_FAULTS = 5
SHOWN_NEW = 5
FILTERS = ("device", "model", "backend", "suite", "commit")


def render(picked: picker.Picked | None) -> None:
    """Draw the page. It shows results of all models, whichever is picked."""
    frame.header("Measured vs predicted", LEAD)
    running.panel()
    everything = results.load()
    if everything.runs:
        with frame.refusals("This cannot be compared"):
            _results(everything.runs)
    else:
        frame.nothing_yet(
            f"No results for this machine yet: press Run, or `python -m harness run{results.option()}` in a terminal."
        )
    _faults(everything)


def _results(runs: tuple[Run, ...]) -> None:
    asked, by, every, unstable = _filters(runs)
    chosen = [run for run in runs if fits(run, **asked)]
    found = compare(chosen, by, every, unstable=unstable)
    options = "".join(f" --{name} {shlex.quote(value)}" for name, value in asked.items() if value is not None)
    compared = f"python -m harness compare{results.option()}{options} --by {by}"
    compared += (" --every" if every else "") + (" --unstable" if unstable else "")
    if found.pairs:
        _comparison(found, by)
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
            "switch on `Unstable times too`."
        )
    else:
        frame.nothing_yet(
            "No case here has both times: predictions need a profile of the machine. Tick `Profile first` above and "
            f"press Run, or `python -m harness profile{results.option()}` in a terminal."
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
    asked: dict[str, Any] = {}
    for column, name in zip(st.columns(len(FILTERS)), FILTERS, strict=True):
        key = f"of_{name}"
        asked[name] = column.selectbox(
            name.capitalize(), values[name], index=None, key=key, bind="query-params", placeholder="all"
        )
    with st.container(horizontal=True, vertical_alignment="center"):
        by: By | None = st.segmented_control(
            "Coloured by", BY, default="kind", required=True, key="by", bind="query-params"
        )
        every = st.toggle(
            "Older runs too", key="every", bind="query-params", help="Else the latest run of each case on each device"
        )
        unstable = st.toggle(
            "Unstable times too",
            key="unstable",
            bind="query-params",
            help="Times that moved too much to be relied on, as on a machine that has other work",
        )
    return asked, by or "kind", every, unstable


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _comparison(found: Comparison, by: By) -> None:
    everything = Group("all", "", found.pairs)
    figures = (
        ("Cases", f"{len(found.pairs):,}", "with both times"),
        ("Median error", f"{everything.median_ape:.1%}", "|predicted - measured| / measured"),
        ("Mean error", f"{everything.mape:.1%}", "MAPE: the mean of the errors"),
        ("Ratio", f"{everything.ratio:.3f}", "measured / predicted, geometric mean; above 1: forecasts were too fast"),
        ("In interval", f"{everything.inside:.0%}", "inside the interval, of those that were told with the forecast"),
    )
    with frame.cards():
        for label, value, exact in figures:
            frame.metric(label, value, exact)
    frame.chart(
        charts.scatter(found.pairs, by == "kind"),
        "measured",
        alt="Each case's measured time over its predicted one, with the line where they are equal and 10 % around it.",
    )
    _whose(found)
    if len(found.pairs) > charts.MOST:
        st.caption(f"The chart shows the {charts.MOST:,} cases with the largest errors.")
    st.header("How large the errors are", anchor=False)
    st.caption("What took twice as long as predicted, or longer, is in the last bar.")
    frame.chart(
        charts.errors(found.pairs, by == "kind"),
        "errors",
        alt="How many cases took how much longer or shorter than predicted.",
    )
    frame.table(_groups(found), "groups", columns=_percent("MAPE", "median error", "inside"))
    _components(found)
    st.header("Every case", anchor=False)
    frame.table(_cases(found), "cases", columns=_percent("error"), height=320)


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


def _whose(found: Comparison) -> None:
    """Which points are of this machine, which of the last run, and whose the others are."""
    own = likely_slug()
    of = Counter(pair.run.environment.slug for pair in found.pairs)
    others = ", ".join(f"{count:,} of {slug}" for slug, count in sorted(of.items()) if slug != own)
    if others:
        st.caption(f"{of[own]:,} of this machine; of other machines, measured there: {frame.verbatim(others)}")
    begun = running.last_started()
    new = [] if begun is None else [pair for pair in found.pairs if _since(pair, begun, own)]
    if new:
        named = ", ".join(pair.run.case for pair in new[:SHOWN_NEW]) + (", …" if len(new) > SHOWN_NEW else "")
        st.caption(f"New from the last run: {len(new):,} of the points, {frame.verbatim(named)}")


def _since(pair: Pair, begun: float, own: str) -> bool:
    """Whether a case was measured on this machine after `begun`, in seconds since 1970."""
    started = datetime.fromisoformat(pair.run.started).timestamp()
    return pair.run.environment.slug == own and started >= begun


def _components(found: Comparison) -> None:
    st.header("By component", anchor=False)
    if not found.parts:
        frame.nothing_yet("No case here was taken apart: forward, training, prefill and decode of a model are.")
        return
    names = list(dict.fromkeys(f"{part.group}, {part.device}" for part in found.parts))
    forget_stale("parts_of", names)
    group = st.selectbox("Cases", names, key="parts_of", format_func=printable, bind="query-params")
    parts = [part for part in found.parts if f"{part.group}, {part.device}" == group]
    st.caption("Both times, summed over the cases that were taken apart.")
    frame.chart(charts.components(parts), "components", alt="Predicted and measured time by component.")
    rows = [
        {
            "component": printable(part.component),
            "cases": part.n,
            "predicted (s)": part.predicted,
            "measured (s)": part.measured,
            "ratio": part.ratio,
        }
        for part in parts
    ]
    frame.table(rows, "components-table", columns=_digits("predicted (s)", "measured (s)", "ratio"))


def _groups(found: Comparison) -> list[dict[str, Any]]:
    return [
        {
            "group": printable(group.name),
            "device": group.device,
            "cases": len(group.pairs),
            "measured / predicted": round(group.ratio, 4),
            "MAPE": group.mape,
            "median error": group.median_ape,
            "inside": group.inside,
        }
        for group in found.groups
    ]


def _cases(found: Comparison) -> list[dict[str, Any]]:
    return [
        {
            "error": pair.error,
            "predicted": duration(pair.predicted),
            "measured": duration(pair.measured),
            "case": printable(pair.run.case),
            "bound": printable(pair.run.forecast.bound) if pair.run.forecast else "",
            "device": pair.run.environment.slug,
            "commit": printable(pair.run.environment.commit or ""),
            "started": pair.run.started,
            "predicted (s)": pair.predicted,
            "measured (s)": pair.measured,
        }
        for pair in found.pairs
    ]


def _percent(*names: str) -> dict[str, Any]:
    return {name: st.column_config.NumberColumn(format="percent") for name in names}


def _digits(*names: str) -> dict[str, Any]:
    return {name: st.column_config.NumberColumn(format="%.4g") for name in names}


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
