"""How far forecasts were from what was measured, as one ratio: a part of the page Measured vs predicted."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

import streamlit as st

from calc.architectures.models import preset_names
from calc.charts import measured as charts
from calc.errors import printable
from calc.units import duration
from dashboard import frame, layout, running
from dashboard.knobs import forget_stale
from harness.compare import By, Comparison, Group, Pair
from harness.environment import likely_slug

SHOWN_NEW = 5
MODELS = ("training", "forward", "prefill", "decode", "layer")
"""Kinds of cases that are known best, whole models, the best known first."""


def draw(found: Comparison, by: By) -> None:
    """Draw the answer, of one pair at least: the case that is known best, the figures of all, and the picture."""
    st.success(_sentence(min(found.pairs, key=_known)))
    picture, figures = layout.side_by_side()
    with figures:
        _figures(Group("all", "", found.pairs))
    with picture:
        _picture(found, by)


def _picture(found: Comparison, by: By) -> None:
    own = likely_slug()
    frame.chart(
        charts.ratios(found.pairs, by == "kind", own),
        "measured",
        alt="Measured over predicted time of each case, over its predicted time, with 10 % around 1.",
    )
    _whose(found, own)
    if len(found.pairs) > charts.MOST:
        st.caption(f"The chart shows the {charts.MOST:,} cases with the largest errors.")


def details(found: Comparison, by: By) -> None:
    """What stands behind the answer: how errors are distributed, by group, by component and case by case."""
    st.header("How large the errors are", anchor=False)
    st.caption("What is more than four times off is in the first or the last bar.")
    frame.chart(charts.errors(found.pairs, by == "kind"), "errors", alt="How many cases were measured at which ratio.")
    columns = {**_digits("measured / predicted", "half within ×", "nine in ten within ×"), **_percent("inside")}
    frame.table(_groups(found), "groups", columns=columns)
    _components(found)
    st.header("Every case", anchor=False)
    st.caption("Whole models first.")
    frame.table(_cases(sorted(found.pairs, key=_known)), "cases", columns=_digits("measured / predicted"), height=320)


def _known(pair: Pair) -> tuple[int, int, str]:
    """An order: models that have a name ahead of others, whole steps ahead of kernels."""
    model, kind = pair.run.params.get("model"), pair.run.kind
    place = MODELS.index(kind) if kind in MODELS else len(MODELS)
    return (0 if model in preset_names() else 1, place, pair.run.case)


def _sentence(pair: Pair) -> str:
    """The case that is known best, in a sentence."""
    where = "this machine" if pair.device == likely_slug() else frame.verbatim(pair.device)
    return (
        f"{frame.verbatim(pair.run.case)} on {where}: predicted {duration(pair.predicted)}, measured "
        f"{duration(pair.measured)}, **{pair.ratio:.2f} ×** the forecast."
    )


def _figures(every: Group) -> None:
    figures = (
        ("Cases", f"{len(every.pairs):,}", "with both times"),
        ("Ratio", f"{every.ratio:.3f}", "measured / predicted, geometric mean; above 1: forecasts were too fast"),
        ("Half within", f"× {every.within(0.5):.3g}", "half of the cases are at most this factor off, either way"),
        ("Nine in ten within", f"× {every.within(0.9):.3g}", "and so are nine in ten of them"),
        ("In interval", f"{every.inside:.0%}", "inside the interval, of those that were told with the forecast"),
    )
    with layout.cards("all"):
        for label, value, exact in figures:
            frame.metric(label, value, exact)


def _whose(found: Comparison, own: str) -> None:
    """Which points are of this machine, which of the last run, and whose the others are."""
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
            "measured / predicted": group.ratio,
            "half within ×": group.within(0.5),
            "nine in ten within ×": group.within(0.9),
            "inside": group.inside,
        }
        for group in found.groups
    ]


def _cases(pairs: list[Pair]) -> list[dict[str, Any]]:
    return [
        {
            "measured / predicted": pair.ratio,
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
        for pair in pairs
    ]


def _percent(*names: str) -> dict[str, Any]:
    return {name: st.column_config.NumberColumn(format="percent") for name in names}


def _digits(*names: str) -> dict[str, Any]:
    return {name: st.column_config.NumberColumn(format="%.4g") for name in names}
