"""Formula: every part of the model with the formula behind its numbers, and the inverse questions."""

from __future__ import annotations

import shlex
from typing import Any

import streamlit as st

from calc.ask import registry
from calc.ask.explain import explain
from calc.ask.parts import OF_PART, WHOLE, PartRow, part_rows
from calc.ask.sensitivity import Sensitivity, sensitivity
from calc.ask.solve import solve
from calc.charts.sensitivity import changes
from calc.cli.solve import answer_table, read_equation
from calc.dtypes import CACHE_DTYPES
from calc.spec import ModelSpec
from calc.spec.resizing import sizes_of
from calc.spec.run import PLAN_SIZES, Run, common_context, common_length
from calc.symbols import describe
from calc.units import binary, si
from dashboard import frame, knobs, picker
from dashboard.cache import cached
from dashboard.planning import MEANINGS

LONGEST = 1500
"""Characters of LaTeX that a person still reads."""
INDENT = "\u2002"
"""A space that Markdown keeps."""
EXAMPLES = {
    "parameters": "params=7B",
    "FLOP": "flops.training<=1e15 FLOP",
    "bytes": "kv_cache<=40GiB",
}


def render(picked: picker.Picked | None) -> None:
    """The page."""
    chosen = picker.wanted(picked)
    frame.header("Formula", "Choose a part and a quantity: its formula, the numbers put in, and what moves it.")
    # Solving stands first, of what is asked below.
    solving = st.container()
    tree, sheet = st.columns([3, 5], gap="medium")
    with tree:
        part = _tree(chosen.spec)
    with sheet:
        quantity, options = _question(chosen.spec, part)
        with frame.refusals("There is no such formula"):
            _explained(explained(chosen.spec, quantity, part, options))
        frame.command(_command(chosen, quantity, part, options))
    with solving:
        _solve(chosen, options)


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


@cached
def solved(spec: ModelSpec, equation: str, symbol: str, keep_ratios: bool, options: dict[str, Any]) -> Any:
    """The table of the answer to an inverse question."""
    entry, budget, target = read_equation(equation)
    answer = solve(spec, entry.name, target, symbol, budget=budget, keep_ratios=keep_ratios, **options)
    return answer_table(spec, answer, entry.unit)


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
    options: dict[str, Any] = {}
    cells = st.columns(3)
    if "seq" in entry.uses or "context" in entry.uses:
        with cells[0]:
            seq = knobs.seq(spec)
            options |= {"seq": seq} if "seq" in entry.uses else {"context": common_context([spec], seq)}
    if "batch" in entry.uses:
        with cells[1]:
            options["batch"] = knobs.batch()
    with cells[2]:
        if "checkpointing" in entry.uses:
            options["checkpointing"] = knobs.checkpointing()
        elif "dtype" in entry.uses:
            usual = CACHE_DTYPES.index("bf16")
            options["dtype"] = st.selectbox(
                "Number format", CACHE_DTYPES, index=usual, key="dtype", bind="query-params"
            )
    return name, options


def _command(chosen: picker.Picked, quantity: str, part: str, options: dict[str, Any]) -> str:
    words = [chosen.reference, quantity, *_flags(options)]
    words += ["--part", part] if part != WHOLE else []
    return f"python -m calc explain {shlex.join(words)} --sensitivity"


def _flags(options: dict[str, Any]) -> list[str]:
    return [word for name, value in options.items() for word in (f"--{name}", str(value))]


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


def _solve(chosen: picker.Picked, options: dict[str, Any]) -> None:
    st.header("Solve", anchor=False)
    st.caption("Which size gives a quantity its target (=), or is the largest within a budget (<=)?")
    question, answer = st.columns(2, gap="medium")
    left, right = question.columns([3, 2])
    with left:
        equation = st.text_input("Quantity and value", "params=7B", key="equation", bind="query-params", max_chars=80)
    with right:
        known = [*sizes_of(chosen.spec), "batch", "seq", "context", *PLAN_SIZES]
        names = list(dict.fromkeys(known))
        knobs.forget_stale("for", names)
        symbol = st.selectbox("for", names, index=names.index("d_model"), key="for", bind="query-params")
        st.caption(_described(symbol))
    with question:
        keep_ratios = st.toggle(
            "Keep ratios", key="ratios", bind="query-params", help="d_ff and heads grow with d_model"
        )
    question.caption("Examples: " + ", ".join(f"`{text}`" for text in (*EXAMPLES.values(), "memory.peak<=h100-sxm")))
    if not equation.strip():
        frame.nothing_yet("Write a quantity, = or <=, and a value, such as params=7B.")
        return
    keep_ratios = keep_ratios and symbol == "d_model"
    with answer, frame.refusals("No answer"):
        usual = {"seq": common_length([chosen.spec]), "context": common_context([chosen.spec])}
        uses = read_equation(equation)[0].uses
        given = {**usual, **options}
        own = {name: given[name] for name in given if name in uses and name != symbol}
        table = solved(chosen.spec, equation, symbol, keep_ratios, own)
        frame.table([dict(zip(("", *table.columns[1:]), row, strict=True)) for row in table.rows], "solution")
        words = [chosen.reference, equation, "--for", symbol, *["--keep-ratios"] * keep_ratios, *_flags(own)]
        st.code(f"python -m calc solve {shlex.join(words)}", language=None, wrap_lines=True)


def _described(name: str) -> str:
    """What a size is; degrees of a plan are no letters of a formula."""
    return MEANINGS.get(name, "setting of a plan") if name in PLAN_SIZES else describe(name).meaning
