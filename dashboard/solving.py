"""The part of the page Formula that solves: which size gives a quantity its target, or stays within a budget."""

from __future__ import annotations

import shlex
from typing import Any

import streamlit as st

from calc.ask.solve import solve
from calc.cli.solve import answer_table, read_equation
from calc.spec import ModelSpec
from calc.spec.resizing import sizes_of
from calc.spec.run import PLAN_SIZES, common_context, common_length
from calc.symbols import describe
from dashboard import frame, knobs, picker
from dashboard.cache import cached
from dashboard.planning import MEANINGS

ROOT = "real root"
"""What a table of answers calls the size that gives the target to the last digit."""
EXAMPLES = ("params=7B", "flops.training<=1e15 FLOP", "kv_cache<=40GiB", "memory.peak<=h100-sxm")


@cached
def solved(spec: ModelSpec, equation: str, symbol: str, keep_ratios: bool, options: dict[str, Any]) -> Any:
    """The table of the answer to an inverse question."""
    entry, budget, target = read_equation(equation)
    answer = solve(spec, entry.name, target, symbol, budget=budget, keep_ratios=keep_ratios, **options)
    return answer_table(spec, answer, entry.unit)


def draw(chosen: picker.Picked, options: dict[str, Any]) -> None:
    """Which size gives a quantity its target, or is the largest within a budget: the answer beside the question."""
    answer, question = st.columns(2, gap="medium")
    with question:
        equation, symbol, keep_ratios = _asked(chosen.spec)
    with answer, frame.refusals("No answer"):
        if not equation.strip():
            frame.nothing_yet("Write a quantity, = or <=, and a value, such as params=7B.")
            return
        usual = {"seq": common_length([chosen.spec]), "context": common_context([chosen.spec])}
        uses = read_equation(equation)[0].uses
        given = {**usual, **options}
        own = {name: given[name] for name in given if name in uses and name != symbol}
        table = solved(chosen.spec, equation, symbol, keep_ratios, own)
        st.info(_sentence(table))
        frame.table([dict(zip(("", *table.columns[1:]), row, strict=True)) for row in table.rows], "solution")
        words = [chosen.reference, equation, "--for", symbol, *["--keep-ratios"] * keep_ratios, *flags(own)]
        st.code(f"python -m calc solve {shlex.join(words)}", language=None, wrap_lines=True)


def _asked(spec: ModelSpec) -> tuple[str, str, bool]:
    """Draw the knobs of the inverse question: (equation, the size that is looked for, whether ratios are kept)."""
    left, right = st.columns([3, 2])
    equation = left.text_input(
        "Which size gives (=) or is within (<=)", "params=7B", key="equation", bind="query-params", max_chars=80
    )
    names = list(dict.fromkeys([*sizes_of(spec), "batch", "seq", "context", *PLAN_SIZES]))
    knobs.forget_stale("for", names)
    symbol = right.selectbox("for", names, index=names.index("d_model"), key="for", bind="query-params")
    right.caption(_described(symbol))
    keep_ratios = left.toggle("Keep ratios", key="ratios", bind="query-params", help="d_ff and heads grow with d_model")
    st.caption("Examples: " + ", ".join(f"`{text}`" for text in EXAMPLES))
    return equation, symbol, keep_ratios and symbol == "d_model"


def _sentence(table: Any) -> str:
    """The first size that can be built, or where there is none the root."""
    _, symbol, quantity, _ = table.columns
    _, size, value, off = next((row for row in table.rows if row[0] != ROOT), table.rows[0])
    return f"{symbol} = {size} gives {quantity} = {value}{f', {off} off' if off else ''}."


def _described(name: str) -> str:
    """What a size is; degrees of a plan are no letters of a formula."""
    return MEANINGS.get(name, "setting of a plan") if name in PLAN_SIZES else describe(name).meaning


def flags(options: dict[str, Any]) -> list[str]:
    """Options as words of the command line."""
    return [word for name, value in options.items() for word in (f"--{name}", str(value))]
