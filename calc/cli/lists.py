"""`models`, `quantities`, `symbols`, `conventions`: what there is to ask with."""

from __future__ import annotations

import shlex
from typing import Any

import click

from calc import conventions as registry_of_conventions
from calc.architectures.denoisers import DENOISERS
from calc.architectures.families import FAMILIES
from calc.architectures.models import load_model, preset_names, preset_title
from calc.ask import registry
from calc.ask.quantity import Quantity, sum_of
from calc.cli import notes, options
from calc.cli.echo import run_record, with_run
from calc.cli.flops import FIELDS
from calc.cli.run_options import GroupedCommand, flags_of, of_run
from calc.errors import printable
from calc.output.notes import warn_beyond
from calc.output.tables import Table, emit
from calc.quantities.parameters import parameters
from calc.spec import ModelSpec
from calc.spec.run import FLOPS_PHASES, Run
from calc.symbols import SYMBOLS

RUN_FIELDS = tuple(name for name in FIELDS if name not in ("mtp", "latent_reading", "convention"))
"""What conventions are compared for."""


@click.command(short_help="The shipped presets.")
@click.option("--families", is_flag=True, help="What every config.json that can be read calls itself, instead.")
@options.output
def models(families: bool, fmt: str) -> None:
    """List the presets with their family and size. Any config.json of a known family works as MODEL too.

    \b
    Examples:
      python -m calc models
      python -m calc models --families
    """
    if families:
        known = {"model_type": FAMILIES, "_class_name": DENOISERS}
        named = [dict.fromkeys(known) | {key: name} for key, names in known.items() for name in names]
        emit(named, [Table((key,), [(name,) for name in names]) for key, names in known.items()], fmt)
        return
    records = []
    for name in preset_names():
        spec = load_model(name)
        total = sum_of(parameters(spec))
        records.append({"model": name, "title": preset_title(name), "family": spec.family, "params": total})
    rows = [(r["model"], r["title"], r["family"], f"{r['params']:,}") for r in records]
    emit(records, [Table(("model", "title", "family", "parameters"), rows, whole="model")], fmt)


@click.command(short_help="The quantities that explain and solve take.")
@options.output
def quantities(fmt: str) -> None:
    """List the quantities with unit, meaning and the options that change them.

    \b
    Example:
      python -m calc quantities
    """
    records = [
        {"quantity": q.name, "unit": q.unit, "meaning": q.meaning, "source": q.source, "options": list(q.uses)}
        for q in registry.QUANTITIES
    ]
    rows = [(q.name, q.unit, q.meaning, _options(q)) for q in registry.QUANTITIES]
    emit(records, [Table(("quantity", "unit", "meaning", "options"), rows)], fmt)


def _options(quantity: Quantity) -> str:
    """The options that change a quantity; those of memory are many."""
    if "dp" in quantity.uses:
        return "(all of `memory`)"
    return " ".join(flags_of(name)[0] for name in quantity.uses)


@click.command(short_help="The letters of the formulas.")
@options.output
def symbols(fmt: str) -> None:
    """List the symbols that formulas hold and `solve --for` takes.

    Where groups of layers differ in a size, each has its own symbol with the group's name behind it: d_head_sliding.
    For memory.peak and memory.total, `solve --for` also takes dp, tp, pp, cp, ep, zero, micro_batches, interleave,
    checkpoint_every and loss_chunks.

    \b
    Example:
      python -m calc symbols
    """
    records = [dict(symbol._asdict()) for symbol in SYMBOLS]
    emit(records, [Table(("symbol", "LaTeX", "unit", "meaning"), [tuple(symbol) for symbol in SYMBOLS])], fmt)


@click.command(cls=GroupedCommand, short_help="Ways to count FLOPs, and what each reports for a model.")
@click.option("--compare", "compared", metavar="MODEL", help="What every convention reports for one run of MODEL.")
@of_run(*RUN_FIELDS, words={"phase": FLOPS_PHASES}, defaults={"phase": "training"})
@options.output
def conventions(compared: str | None, fmt: str, words: dict[str, Any]) -> None:
    """List the conventions with formula and source, or compare them on one run.

    \b
    Examples:
      python -m calc conventions
      python -m calc conventions --compare llama-3-8b --seq 8192
    """
    if compared is not None:
        spec = options.read_model(compared)
        options.note_own_length([spec])
        lengths: dict[str, Any] = options.with_usual_lengths({"seq": None, "context": None} | words, [spec])
        lengths.setdefault("phase", "training")
        query = Run(**lengths)
        notes.unused((*registry.find(f"flops.{query.phase}").uses, "phase"), f"flops.{query.phase}")
        decode = query.phase == "decode"
        warn_beyond(spec, query.context if decode else query.seq, "--context" if decode else "--seq")
        _compare(spec, query, fmt, compared)
        return
    notes.unused((), "the list of conventions")
    records = [_described(convention) for convention in registry_of_conventions.CONVENTIONS]
    tables = [
        Table(
            ("", ""),
            [(key, str(record[key])) for key in ("title", "formula", "counts", "source")]
            + [("also", " ".join(record["aliases"]))] * bool(record["aliases"]),
            record["convention"],
        )
        for record in records
    ]
    emit(records, tables, fmt)


def _described(convention: registry_of_conventions.Convention) -> dict[str, Any]:
    return {
        "convention": convention.name,
        "aliases": [alias for alias, name in registry_of_conventions.ALIASES.items() if name == convention.name],
        "title": convention.title,
        "formula": convention.formula,
        "counts": convention.counts,
        "source": convention.source,
    }


def _compare(spec: ModelSpec, query: Run, fmt: str, reference: str) -> None:
    records = []
    rows = []
    for convention, count, ratio, reason in registry_of_conventions.compare(spec, query):
        record: dict[str, Any] = {"model": spec.name, "convention": convention.name, "phase": query.phase}
        if count is None or ratio is None:
            records.append(record | {"total": None, "reason": reason})
            rows.append((convention.name, "", "", "", "", f"– {reason}"))
            continue
        parts = {"linear": count.linear, "attention": count.attention, "other": count.other}
        caveats = list(convention.caveats(spec))
        records.append(record | {"total": count.total, **parts, "ratio": ratio, "caveats": caveats})
        name = convention.name + " *" * bool(caveats)
        figures = (f"{n:,.4g}" for n in (count.total, *parts.values()))
        rows.append((name, *figures, f"{ratio - 1:+.2%}"))
    title = f"{query.phase} of {spec.name}, batch {query.batch}, " + (
        f"context {query.context}" if query.phase == "decode" else f"sequence {query.seq}"
    )
    command = f"python -m calc flops {shlex.quote(printable(reference))} --phase {query.phase} --convention NAME"
    note = f"* its formula does not see all of this model: `{command}` says what"
    note = note if any(record.get("caveats") for record in records) else ""
    columns = ("convention", "total", "linear", "attention", "other", "against torch")
    echoed = run_record(query, uses=FIELDS, specs=[spec])
    tables = with_run([Table(columns, rows, title, note)], echoed)
    emit([record | {"run": echoed} for record in records], tables, fmt)
