"""`explain`: the formula behind a number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from calc.ask import registry
from calc.ask.estimate import Estimate
from calc.ask.explain import Explanation
from calc.ask.explain import explain as explain_quantity
from calc.ask.parts import WHOLE
from calc.ask.quantity import Quantity
from calc.ask.sensitivity import Sensitivity
from calc.ask.sensitivity import sensitivity as find_sensitivity
from calc.cli import adapting, completing, notes, options
from calc.cli.echo import run_record, with_run
from calc.cli.memory_words import MEMORY_FIELDS, memory_record, memory_words
from calc.cli.run_options import GroupedCommand, of_run
from calc.output.notes import note
from calc.output.tables import Table, emit
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.symbols import describe
from calc.units import binary, si, whole

FIELDS = ("context", "mtp", "routing", "convention", *MEMORY_FIELDS)
"""What some quantity depends on."""
EXECUTED = {"execution": "sdpa; compiled where bytes moved are counted"}
LONGEST = 1000
"""Characters of a formula that a table still prints; --json and --latex print every one."""


@click.command(cls=GroupedCommand, short_help="The formula of a quantity, with numbers put in.")
@options.model
@click.argument("quantity", shell_complete=completing.quantities)
@of_run(*FIELDS, defaults=EXECUTED, old=("--kernels",))
@adapting.adapters
@click.option(
    "--part", default=WHOLE, show_default="all of it", metavar="PATH", help="Of one part alone, as layers.{}.mlp."
)
@click.option("--sensitivity", is_flag=True, help="What 10 % more of each symbol does.")
@click.option("--latex", is_flag=True, help="Print the formula in LaTeX and nothing else.")
@options.output
def explain(
    model: ModelSpec, quantity: str, part: str, sensitivity: bool, latex: bool, fmt: str, words: dict[str, Any]
) -> None:
    """Print the formula of QUANTITY for MODEL, then with the numbers put in, then its value.

    `quantities` lists what can be asked; `symbols` says what the letters mean. Options that QUANTITY does not depend on
    change nothing, and a note on stderr says so.

    For memory.total and memory.peak, --batch is of one data-parallel rank; the moments of a step and what would change
    the peak stand below.

    \b
    Examples:
      python -m calc explain gpt2 params
      python -m calc explain llama-3-8b flops.training --seq 8192 --latex
      python -m calc explain llama-3-8b memory.peak --checkpointing full \\
          --dp 8 --zero 3
      python -m calc explain llama-3-8b flops.forward \\
          --part "layers.{}.attention" --sensitivity
    """
    given = words_for(model, registry.find(quantity), words)
    explanation = explain_quantity(model, quantity, part=part, **given)
    for caveat in explanation.estimate.caveats:
        note(model, caveat)
    if latex and fmt == "table":
        click.echo(explanation.latex())
        return
    tables = _tables(explanation)
    if len(str(explanation.formula)) > LONGEST:
        tables = _short(tables, explanation)
    if registry.find(quantity).group == "memory":
        from calc.cli.memory_tables import explain_peak  # most questions are not about memory, and it is long to load

        tables += explain_peak(model, given)
    echoed = record_of(model, explanation.estimate)
    record = {**_record(explanation), "run": echoed}
    if sensitivity:
        moved = find_sensitivity(explanation)
        record["sensitivity"] = {each.symbol.name: {"value": each.moved, "change": each.change} for each in moved}
        tables.append(_moved(moved, explanation.estimate.unit))
    if part != WHOLE:
        record["part"] = part
    emit([record], with_run(tables, echoed) if "batch" in registry.find(quantity).uses else tables, fmt)


def words_for(spec: ModelSpec, entry: Quantity, words: dict[str, Any], symbol: str | None = None) -> dict[str, Any]:
    """Those of `words` that a quantity depends on, and notes on the others. symbol: what is looked for, no word."""
    memory = "dp" in entry.uses
    notes.unused({*entry.uses, symbol or ""}, entry.name)
    notes.of_inputs(spec, words.get("source_seq"), entry.uses)
    if memory:
        words = memory_words(words)
        notes.unused_in_mode(Run(mode=words.get("mode", "training")))
    return {name: value for name, value in words.items() if name in entry.uses and name != symbol}


def record_of(spec: ModelSpec, estimate: Estimate, found: Mapping[str, int] | None = None) -> dict[str, Any]:
    """The run as an answer about one quantity repeats it. found: sizes of it that were looked for."""
    run = estimate.run.placed(found or {})
    entry = registry.find(estimate.quantity)
    group = entry.group
    if group == "memory":
        return memory_record(run, spec)
    return run_record(run, "compiled" if group == "traffic" else None, uses=entry.uses, specs=[spec])


def _moved(moved: list[Sensitivity], unit: str) -> Table:
    """What a tenth more of each symbol does."""
    rows = []
    for each in moved:
        gives = binary(each.moved) if unit == "bytes" else si(each.moved, unit if unit == "FLOP" else "")
        change = "–" if each.change is None else f"{each.change:+.2%}"
        rows.append((each.symbol.name, f"{each.value:,}", gives, change))
    return Table(("10 % more of", "now", "gives", "which is"), rows)


def _record(it: Explanation) -> dict[str, Any]:
    return {
        "model": it.estimate.model,
        "quantity": it.estimate.quantity,
        "value": it.estimate.value,
        "unit": it.estimate.unit,
        "formula": str(it.formula),
        "numbers": it.numbers(),
        "latex": it.latex(),
        "symbols": {symbol.name: value for symbol, value in it.values.items()},
        "terms": {name: {"formula": str(formula), "value": value} for name, formula, value in it.terms},
        "convention": it.estimate.convention,
        "source": it.estimate.source,
    }


def _short(tables: list[Table], it: Explanation) -> list[Table]:
    """The same tables without a formula that nobody reads in a terminal."""
    facts, terms, symbols = tables
    length = f"{len(str(it.formula)):,} characters of minima and maxima; --json and --latex print it"
    rows = [("formula", length), *(row for row in facts.rows if row[0] not in ("formula", "numbers"))]
    shown = (
        [terms._replace(columns=terms.columns[:2], rows=[row[:2] for row in terms.rows])] if len(it.terms) > 1 else []
    )
    return [facts._replace(rows=rows), *shown, symbols]


def _tables(it: Explanation) -> list[Table]:
    value = it.estimate
    terms = [(name, whole(number), str(formula)) for name, formula, number in it.terms]
    symbols = [
        (symbol.name, f"{number:,}", describe(symbol.name).unit, describe(symbol.name).meaning)
        for symbol, number in it.values.items()
    ]
    facts = [
        ("formula", str(it.formula)),
        ("numbers", it.numbers()),
        ("value", f"{whole(value.value)} {value.unit}"),
        *([("convention", value.convention)] if value.convention else []),
        ("source", value.source),
    ]
    return [
        Table(("", ""), facts, f"{value.quantity} of {value.model}"),
        Table(("term", "value", "formula"), terms),
        Table(("symbol", "value", "unit", "meaning"), symbols),
    ]
