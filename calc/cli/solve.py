"""`solve`: inverse questions."""

from __future__ import annotations

import re
from typing import Any

import click

from calc.ask import registry
from calc.ask.estimate import estimate
from calc.ask.quantity import Quantity
from calc.ask.solve import Solution, moved_head_widths
from calc.ask.solve import solve as solve_quantity
from calc.cli import adapting, options
from calc.cli.echo import with_run
from calc.cli.explain import EXECUTED, FIELDS, record_of, words_for
from calc.cli.run_options import GroupedCommand, of_run
from calc.errors import Refused
from calc.output.notes import note
from calc.output.tables import Table, emit
from calc.spec import ModelSpec
from calc.units import parse_amount, parse_bytes, whole


@click.command(cls=GroupedCommand, short_help="Which size gives a quantity its target, or fits a budget.")
@options.model
@click.argument("equation", metavar="QUANTITY=VALUE")
@click.option("--for", "symbol", required=True, metavar="SYMBOL", help="The size to find, by its name in `symbols`.")
@click.option("--keep-ratios", is_flag=True, help="With d_model, scale d_ff, experts and heads along with it.")
@of_run(*FIELDS, defaults=EXECUTED, old=("--kernels",))
@adapting.adapters
@options.output
def solve(model: ModelSpec, equation: str, symbol: str, keep_ratios: bool, fmt: str, words: dict[str, Any]) -> None:
    """Find the SYMBOL at which QUANTITY of MODEL is VALUE, every other size held fixed.

    QUANTITY=VALUE gives the real root and the nearest sizes that can be built; "QUANTITY<=VALUE" (quoted, a budget)
    the largest that fits (the smallest, where more of SYMBOL costs less). Values may have units: 7B, 80GiB, 1e21FLOP;
    for bytes, a device of `gpus` stands for its memory. SYMBOL may be a degree of a plan, such as dp or zero.

    \b
    Examples:
      python -m calc solve gpt2 params=1.5B --for n_layers
      python -m calc solve llama-3-8b params=13B --for d_model --keep-ratios
      python -m calc solve llama-3-8b "kv_cache<=40GiB" --for seq
      python -m calc solve llama-3-8b "params.trainable<=100M" --for lora_rank \\
          --lora-rank 8
      python -m calc solve llama-3-8b "memory.peak<=80GiB" --for batch --dp 64 \\
          --zero 3 --checkpointing full
    """
    entry, budget, target = read_equation(equation)
    name = entry.name
    chosen = words_for(model, entry, words, symbol)
    now = estimate(model, name, **chosen)
    for caveat in now.caveats:
        note(model, caveat)
    answer = solve_quantity(model, name, target, symbol, budget=budget, keep_ratios=keep_ratios, **chosen)
    echoed = record_of(model, now, answer.candidates[0].sizes if answer.candidates else None)
    tables = [answer_table(model, answer, entry.unit)]
    emit(
        [{**_record(model, answer), "run": echoed}], with_run(tables, echoed) if "batch" in entry.uses else tables, fmt
    )


def read_equation(equation: str) -> tuple[Quantity, bool, int | float]:
    """(quantity, whether the value is a budget, value). Errors: Refused for what is no QUANTITY=VALUE."""
    match = re.fullmatch(r"\s*([\w.]+)\s*(<=|=)\s*(.+)", equation)
    if match is None:
        examples = '"params=7B" or "memory.peak<=80GiB"'
        raise Refused("QUANTITY=VALUE", f"a quantity, = or <=, and a value, such as {examples}", equation)
    name, relation, text = match.groups()
    entry = registry.find(name)
    return entry, relation == "<=", _target(text, entry.unit, name)


def _target(text: str, unit: str, name: str) -> int | float:
    """A number with its unit, or the bytes of a device."""
    if unit != "bytes":
        return parse_amount(text, unit, name)
    if not text[0].isalpha():
        return parse_bytes(text, name)
    from calc.spec.catalogue import load_device

    return load_device(text).usable


def _record(spec: ModelSpec, answer: Solution) -> dict[str, Any]:
    return {
        "model": spec.name,
        "quantity": answer.quantity,
        "target": answer.target,
        "relation": "<=" if answer.budget else "=",
        "symbol": answer.symbol,
        "root": answer.root,
        "candidates": [{"sizes": dict(c.sizes), "value": c.value} for c in answer.candidates],
    }


def answer_table(spec: ModelSpec, answer: Solution, unit: str) -> Table:
    """The real root and the sizes that can be built, as people read them."""
    relation = "≤" if answer.budget else "="
    title = f"{answer.quantity} of {spec.name} {relation} {answer.target:,} {unit}, for {answer.symbol}"
    rows = [("real root", f"{answer.root:,.6f}", f"{answer.target:,}", "")] if answer.root is not None else []
    label = f"{'largest' if answer.rising else 'smallest'} that fits" if answer.budget else "nearest"
    for candidate in answer.candidates:
        moved = {**candidate.sizes, **moved_head_widths(spec, candidate)}
        sizes = " ".join(f"{name}={size}" for name, size in moved.items() if name != answer.symbol)
        own = f"{candidate.sizes[answer.symbol]:,}"
        off = f"{candidate.value / answer.target - 1:+.2%}"
        rows.append((f"{label} {sizes}".strip(), own, whole(candidate.value), off))
        label = "next"
    return Table(("", answer.symbol, answer.quantity, "off by"), rows, title)
