"""`sweep`: every combination of sizes, the best of them and those that no other beats."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from calc.ask import registry
from calc.ask.grid import TOP, Grid, sweep_grid
from calc.cli import notes, options
from calc.cli.explain import EXECUTED, FIELDS
from calc.cli.memory_words import memory_words
from calc.cli.options import Names
from calc.cli.plan_grid import axes_of
from calc.cli.run_options import GroupedCommand, of_run
from calc.errors import Refused
from calc.output.progress import Progress
from calc.output.tables import Table, emit
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.units import parse_amount, parse_bytes, whole
from calc.workers.workers import Workers


@click.command(cls=GroupedCommand, short_help="Every combination of sizes: the best, and what no other beats.")
@options.model
@click.option("--over", required=True, metavar="SIZES", help="Sizes and values: d_model=1024..4096:512,n_layers=8,16.")
@click.option("--least", type=Names(), required=True, help="A quantity that is to be small; two of them: their front.")
@click.option("--bound", multiple=True, metavar="QUANTITY=LOW..HIGH", help="What a quantity must keep: params=1B..")
@click.option("--show", type=Names(), default=(), help="Quantities to tell beside these.")
@click.option("--top", type=options.Tokens(), default=TOP, show_default=True, help="Configurations to show.")
@click.option("--every", is_flag=True, help="With --keep: every configuration within the bounds.")
@of_run(*FIELDS, defaults=EXECUTED, old=("--kernels",))
@options.working
@options.output
def sweep(model: ModelSpec, words: dict[str, Any], workers: Workers, fmt: str, **given: Any) -> None:
    """Look at every combination of sizes of MODEL, and show those with the least of a quantity.

    Quantities are those of `quantities`, sizes those of `symbols` and of plans. Nothing checks that heads divide. With
    two quantities the front is shown too: what no other combination beats in both. Memory stays bounded whatever their
    number; with --keep and --every all of them are written as Parquet files.

    \b
    Examples:
      python -m calc sweep gpt2 --over n_layers=8..16,d_model=512..1024:128 \\
          --least params --bound params=100M..
      python -m calc sweep llama-3-8b --over seq=1024..65536:1024,batch=1..64 \\
          --least kv_cache --bound kv_cache=8GiB..
    """
    axes = axes_of(given["over"], "--over")
    if given["every"] and workers.keep is None:
        raise Refused("--every", "--keep beside it, the folder for them", "none")
    bounds = dict(_bound(text) for text in given["bound"])
    used = _words_used(model, [*given["least"], *given["show"], *bounds], words, axes)
    progress = Progress()
    found = sweep_grid(
        model,
        axes,
        given["least"],
        quantities=given["show"],
        bounds=bounds,
        top=given["top"],
        every=given["every"],
        workers=workers,
        progress=progress,
        **used,
    )
    progress.close()
    records = [{"front": False, **each} for each in _records(found.rows)]
    records += [{"front": True, **each} for each in _records(found.front)]
    emit(records, _tables(model, found, given["least"]), fmt)
    if found.interrupted:
        sys.exit(130)


def _words_used(
    spec: ModelSpec, names: Sequence[str], words: dict[str, Any], axes: Mapping[str, Any]
) -> dict[str, Any]:
    """Those of `words` that the quantities depend on and that are no axis, and notes on the others."""
    entries = [registry.find(name) for name in names]
    uses = {use for entry in entries for use in entry.uses}
    notes.unused(uses | set(axes), ", ".join(dict.fromkeys(entry.name for entry in entries)))
    notes.of_inputs(spec, words.get("source_seq"), uses)
    if "dp" in uses:
        words = memory_words(words)
        notes.unused_in_mode(Run(mode=words.get("mode", "training")))
    return {name: value for name, value in words.items() if name in uses and name not in axes}


def _bound(text: str) -> tuple[str, tuple[float, float]]:
    """(quantity, (least, most)) of params=1B..2B, either of which may be left out."""
    match = re.fullmatch(r"\s*([\w.]+)\s*=\s*(.*?)\.\.(.*)", text)
    if match is None or not (match[2] or match[3]):
        raise Refused("--bound", "a quantity and its range, such as params=1B..2B or memory.peak=..80GiB", text)
    entry = registry.find(match[1])

    def amount(part: str, otherwise: float) -> float:
        if not part:
            return otherwise
        is_bytes = entry.unit == "bytes"
        return float(parse_bytes(part, "--bound") if is_bytes else parse_amount(part, entry.unit, "--bound"))

    return entry.name, (amount(match[2], -math.inf), amount(match[3], math.inf))


def _records(rows: Mapping[str, Any]) -> list[dict[str, float]]:
    columns = {name: column.tolist() for name, column in rows.items()}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _tables(model: ModelSpec, found: Grid, least: Sequence[str]) -> list[Table]:
    note = f"{found.looked:,} configurations, of which {found.within:,} are within the bounds"
    note += "; interrupted: these are the best until then" * found.interrupted
    shown = [(found.rows, f"{model.name}: least {registry.find(least[0]).name}")]
    if len(least) == 2:
        both = " and ".join(registry.find(each).name for each in least)
        shown.append((found.front, f"what no other beats in {both}"))
    return [
        Table(tuple(rows) or ("",), [tuple(map(whole, each.values())) for each in _records(rows)], title, note)
        for rows, title in shown
    ]
