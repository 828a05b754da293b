"""The part of the page of scaling laws that fits them to a visitor's own runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import streamlit as st

from calc.charts.fits import fit_chart, frontier_chart
from calc.errors import printable
from calc.fitting.average import average
from calc.fitting.envelope import fit_envelope
from calc.fitting.fit import Fit, fit, tournament
from calc.fitting.forms import FORMS
from calc.fitting.frontier import EQUATION, FrontierFit
from calc.fitting.isoflop import fit_isoflop
from calc.fitting.runs import Upload
from calc.units import si
from dashboard import frame, saved

MAX_MIB = 2
CHOICES = ("all", *(form.name for form in FORMS), "isoflop", "envelope")
REFITS = (0, 100, 500, 1000, 4000)
NUMBERS = ("objective", "held-out error, %", "on average, %", "tokens a parameter")
DONE = "fitted"
"""The key of the last fit in the visitor's session: (what was fitted how, the fits)."""


def draw() -> None:
    """Upload, choice of form, and the last fit."""
    st.header("Fit your own runs", anchor=False)
    upload = st.file_uploader(
        "A CSV of training runs: one row a run, with columns of parameters, tokens and final loss",
        type=["csv"],
        key="runs",
        max_upload_size=MAX_MIB,
    )
    left, middle, right = st.columns(3, vertical_alignment="bottom")
    form = left.selectbox(
        "Form", CHOICES, key="form", bind="query-params",
        help="all: every form of loss, ranked by its error at the largest compute, fitted without it. isoflop and "
        "envelope: the frontier without a form.",
    )  # fmt: skip
    refits = middle.select_slider(
        "Refits for intervals", REFITS, value=500, key="refits", bind="query-params", help="Bootstrap samples"
    )
    skip = right.toggle(
        "Skip invalid rows", key="skip", bind="query-params", help="Rows without a positive number: else refused"
    )
    if upload is None:
        frame.nothing_yet(
            "No runs yet: upload a CSV such as one with the columns `params,tokens,loss` (and `flops`, `run` where you "
            f"have them), at most {MAX_MIB} MiB. It is read in memory and kept only for your session."
        )
        return
    data = upload.getvalue()
    settings = (hashlib.sha256(data).hexdigest(), form, refits, skip)
    if st.button("Fit", key="fit"):
        st.session_state.pop(DONE, None)
        with frame.refusals("These runs cannot be fitted"):
            st.session_state[DONE] = (settings, _fitted(_named(upload.name, data), form, refits, skip))
    last = st.session_state.get(DONE)
    if last is None or last[0] != settings:
        st.caption("Press Fit.")
        return
    _show(last[1], form, refits, skip)


def _named(name: str, data: bytes) -> Upload:
    return Upload(printable(name)[-60:] or "runs.csv", data)


def _fitted(source: Upload, form: str, refits: int, skip: bool) -> list[Any]:
    """The fits, the best first, with a bar while they are made. Errors: Refused."""
    bar = st.progress(0.0, "reading")

    def progress(what: str, done: int, whole: int) -> None:
        bar.progress(min(done / max(whole, 1), 1.0), f"{what}: {done:,} of {whole:,}")

    options: dict[str, Any] = {"refits": refits, "skip_invalid": skip, "progress": progress}
    single: dict[str, Callable[..., Any]] = {"isoflop": fit_isoflop, "envelope": fit_envelope}
    try:
        if form == "all":
            return [*tournament(source, **options)]
        return [single[form](source, **options) if form in single else fit(source, form, **options)]
    finally:
        bar.empty()


def _show(fits: list[Any], form: str, refits: int, skip: bool) -> None:
    best: Fit | FrontierFit = fits[0]
    for warning in best.warnings:
        st.caption(f"⚠ {frame.verbatim(warning)}")
    if form == "all":
        st.markdown(f"**{best.law}** errs least at runs of larger compute than it was fitted to.")
        frame.table([_ranked(each) for each in fits], "forms", shown=dict.fromkeys(NUMBERS, "{:,.4g}".format))
        both = average(fits)
        if both is not None:
            sizes = f"{si(both.optimum['params'])} on {si(both.optimum['tokens'])} tokens"
            names = ", ".join(both.forms)
            st.caption(f"The runs cannot tell {names} apart; over all of them the optimum is {sizes}.")
    st.markdown(f"**{best.law}**: `{EQUATION if isinstance(best, FrontierFit) else best.form.equation}`")
    rows = _values(best)
    frame.table(rows, "constants", shown=dict.fromkeys([name for name in rows[0] if name != "constant"], _written))
    if not best.optimum:
        st.caption("These runs cannot tell an optimum.")
    else:
        st.caption(f"The optimum is that of {best.compute:.4g} FLOP, the runs' largest.")
    drawn = fit_chart(best) if isinstance(best, Fit) else frontier_chart(best)
    invalid = " --skip-invalid" if skip else ""
    command = f"python -m calc fit runs.csv --law {form} --refits {refits}{invalid}"
    saved.about(saved.ANY, command)
    frame.chart(drawn | {"height": 440, "title": ""}, "fit", alt="Loss of the runs, and the fitted curves")
    columns = ", ".join(f"{what} from {column}" for what, column in best.columns.items())
    st.caption(f"{best.rows:,} rows read: {frame.verbatim(columns)}")
    frame.command(command, part="fit")


def _ranked(each: Fit) -> dict[str, Any]:
    held = each.held_out
    return {
        "form": each.law,
        "constants": len(each.form.free),
        "objective": each.objective,
        "held-out error, %": None if held is None else 100 * held.rms,
        "on average, %": None if held is None else 100 * held.bias,
        "tokens a parameter": each.optimum["tokens_per_param"] if each.optimum else None,
        f"equation, optimum at {si(each.compute, 'FLOP')}": each.form.equation,
    }


def _values(found: Fit | FrontierFit) -> list[dict[str, Any]]:
    numbers = {**found.constants, **{f"optimum {name}": value for name, value in (found.optimum or {}).items()}}
    intervals = {**found.intervals}
    rows = []
    for name, value in numbers.items():
        band = intervals.get(name.removeprefix("optimum "))
        ends = {"95 % from": band.low if band else None, "to": band.high if band else None}
        rows.append({"constant": name, "value": value, **(ends if found.refits else {})})
    return rows


def _written(value: float) -> str:
    return si(value) if abs(value) >= 1e6 else f"{value:,.5g}"
