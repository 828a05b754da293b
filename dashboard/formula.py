"""Formula: every part of the model with the formula behind its numbers, and the inverse questions."""

from __future__ import annotations

import shlex
from typing import Any

import streamlit as st

from calc.ask import registry
from calc.ask.explain import explain
from calc.ask.parts import OF_PART, WHOLE, PartRow, part_rows
from calc.ask.sensitivity import Sensitivity, sensitivity
from calc.charts.sensitivity import changes
from calc.dtypes import CACHE_DTYPES
from calc.spec import ModelSpec
from calc.spec.run import Run, common_context
from calc.units import binary, si
from dashboard import frame, knobs, layout, picker, saved, solving
from dashboard.cache import cached

LONGEST = 1500
"""Characters of LaTeX that a person still reads."""
INDENT = "\u2002"
"""A space that Markdown keeps."""


def render(picked: picker.Picked | None) -> None:
    """The page."""
    chosen = picker.wanted(picked)
    frame.header("Formula", "Which size reaches a target; and the formula of every number, with what moves it.")
    # Solving stands first, of what is asked below.
    above = st.container()
    st.header("A part and its formula", anchor=False)
    tree, sheet = st.columns([3, 5], gap="medium")
    with tree:
        part = _tree(chosen.spec)
    with sheet:
        quantity, options = _question(chosen.spec, part)
        with frame.refusals("There is no such formula"):
            saved.about(saved.ANY, _command(chosen, quantity, part, options))
            _explained(explained(chosen.spec, quantity, part, options))
        frame.command(_command(chosen, quantity, part, options))
    with above:
        solving.draw(chosen, options)


@cached
def parts(spec: ModelSpec) -> list[PartRow]:
    """The parts that have parameters or FLOPs."""
    rows = part_rows(spec, Run(seq=1, context=0))
    return [row for row in rows if row.total or row.total_flops]


@cached
def explained(spec: ModelSpec, quantity: str, part: str, options: dict[str, Any]) -> dict[str, Any]:
    """The formula of a quantity of a part, as plain values: sympy's are not kept."""
    found = explain(spec, quantity, part=part, **options)
    latex = found.latex()
    return {
        "latex": latex if len(latex) <= LONGEST else "",
        "length": len(latex),
        "numbers": found.numbers(),
        "value": found.estimate.value,
        "unit": found.estimate.unit,
        "convention": found.estimate.convention,
        "source": found.estimate.source,
        "caveats": found.estimate.caveats,
        "terms": [(name, str(formula), value) for name, formula, value in found.terms],
        "sensitivity": sensitivity(found),
    }


def _tree(spec: ModelSpec) -> str:
    rows = {row.path: row for row in parts(spec)}
    known = list(rows)
    knobs.forget_stale("part", known)
    wanted = st.query_params.get("part", WHOLE)

    def label(path: str) -> str:
        row, pieces = rows[path], path.split(".")
        several = pieces[-1].startswith("{")
        name = ".".join(pieces[-2:]) if several else pieces[-1]
        times = f" × {row.calls:,}" if several else ""
        size = f" · {si(row.total)}" if row.total else ""
        return INDENT * row.depth + name + times + size

    with st.container(height=620, border=True):
        first = known.index(wanted) if wanted in known else 0
        part = st.radio("Part, and its parameters", known, index=first, format_func=label, key="part")
    # Not bound to the address: a bound widget writes its label there, and that changes with every size.
    if part != wanted:
        st.query_params["part"] = part
    return str(part)


def _question(spec: ModelSpec, part: str) -> tuple[str, dict[str, Any]]:
    """The quantity, and the options that it depends on."""
    names = [each.name for each in registry.QUANTITIES] if part == WHOLE else list(OF_PART)
    if not spec.decodes:
        names = [name for name in names if name != "kv_cache" and not name.endswith(".decode")]
    knobs.forget_stale("quantity", names)
    name = st.selectbox("Quantity", names, index=names.index("params"), key="quantity", bind="query-params")
    entry = registry.find(name)
    st.caption(entry.meaning)
    return name, _options(spec, entry.uses)


def _options(spec: ModelSpec, uses: Any) -> dict[str, Any]:
    """Draw the knobs of the run that a quantity is of; their values by the names of options."""
    options: dict[str, Any] = {}
    if not {"seq", "context", "batch", "checkpointing", "dtype"} & set(uses):
        return options
    with layout.fold("Of which run", "seq", "batch", "checkpointing", "dtype"):
        cells = st.columns(3)
    if "seq" in uses or "context" in uses:
        with cells[0]:
            seq = knobs.seq(spec)
            options |= {"seq": seq} if "seq" in uses else {"context": common_context([spec], seq)}
    if "batch" in uses:
        with cells[1]:
            options["batch"] = knobs.batch()
    with cells[2]:
        if "checkpointing" in uses:
            options["checkpointing"] = knobs.checkpointing()
        elif "dtype" in uses:
            usual = CACHE_DTYPES.index("bf16")
            options["dtype"] = st.selectbox(
                "Number format", CACHE_DTYPES, index=usual, key="dtype", bind="query-params"
            )
    return options


def _command(chosen: picker.Picked, quantity: str, part: str, options: dict[str, Any]) -> str:
    words = [chosen.reference, quantity, *solving.flags(options)]
    words += ["--part", part] if part != WHOLE else []
    return f"python -m calc explain {shlex.join(words)} --sensitivity"


def _explained(it: dict[str, Any]) -> None:
    value, unit = it["value"], it["unit"]
    exact = f"{value:,} {unit}"
    first, second = st.columns([2, 3])
    with first:
        frame.metric("Value", binary(value) if unit == "bytes" else si(value, unit if unit == "FLOP" else ""), exact)
    with second:
        st.markdown(f"**{exact}**")
        convention = f"convention {it['convention']}; " if it["convention"] else ""
        st.caption(f"{convention}{it['source']}")
    for caveat in it["caveats"]:
        st.caption(caveat)
    if it["latex"]:
        st.latex(it["latex"])
        st.code(it["numbers"], language=None, wrap_lines=True)
    else:
        st.info(f"The whole formula has {it['length']:,} characters of minima and maxima: the command below prints it.")
    if len(it["terms"]) > 1:
        rows = [
            {"term": name, "value": value, "formula": formula if len(formula) <= LONGEST else "–"}
            for name, formula, value in it["terms"]
        ]
        frame.table(rows, "terms", columns=frame.grouped("value"))
    _moved(it["sensitivity"], unit)


def _moved(found: list[Sensitivity], unit: str) -> None:
    """What each symbol is, and what 10 % more of it does."""
    if not found:
        return
    st.header("What 10 % more of each symbol does", anchor=False)
    rows = [
        {
            "symbol": each.symbol.name,
            "now": each.value,
            "unit": each.symbol.unit,
            "change": each.change,
            "value with 10 % more": each.moved,
            "meaning": each.symbol.meaning,
        }
        for each in found
    ]
    frame.chart(changes(rows, unit), "sensitivity", alt="Change of the value with 10 % more of each symbol")
    columns = {
        **frame.grouped("now", "value with 10 % more"),
        "change": st.column_config.NumberColumn(format="percent"),
    }
    frame.table(rows, "symbols", columns=columns)
