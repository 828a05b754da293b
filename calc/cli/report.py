"""`report`: the main job, everything a model costs on one page of 80 columns."""

from __future__ import annotations

import shlex
import textwrap
from typing import Any, NamedTuple, get_args

import click

from calc.ask.report import Held, Report
from calc.ask.report import report as make_report
from calc.cli import options
from calc.cli.echo import run_line, run_record, with_run
from calc.errors import printable
from calc.output.tables import Table, emit
from calc.spec import ModelSpec
from calc.spec.catalogue import load_device
from calc.spec.run import common_length
from calc.trace.op import Component
from calc.units import binary, si

WIDTH = 80
ANSWERS = ("recipe", "optimizer", "checkpointing", "source_seq", "images")
"""What the figures of a step depend on beside its length."""


@click.command(short_help="Everything a model costs, on one page.")
@options.models
@click.option(
    "--seq",
    type=options.Length(),
    help="Tokens of the sequence whose FLOPs are counted. [default: 2048, or the longest that all MODELs take]",
)
@options.output
def report(models: tuple[ModelSpec, ...], seq: int | None, fmt: str) -> None:
    """Print parameters, FLOPs, KV cache, weight bytes and memory of MODEL; several MODELs side by side.

    Beside each row stands the command that shows its formula (behind `python -m calc`).

    \b
    Examples:
      python -m calc report llama-3-8b
      python -m calc report path/to/config.json --json
    """
    options.note_own_length(models)
    options.note_reconstructed(models)
    seq = common_length(models) if seq is None else seq
    reports = [make_report(spec, seq) for spec in models]
    echoed = run_record(reports[0].run.changed(phase="training"), "sdpa", uses=ANSWERS, specs=models)
    if fmt == "table" and len(reports) == 1:
        (reference,) = click.get_current_context().meta["references"]
        click.echo(_page(reports[0], shlex.quote(printable(reference))))
        click.echo("\n".join(textwrap.wrap(run_line(echoed), WIDTH - 1, subsequent_indent=" ")))
    else:
        emit([_record(it) | {"run": echoed} for it in reports], with_run([_compared(reports)], echoed), fmt)


def _record(it: Report) -> dict[str, Any]:
    return {
        "model": it.model,
        "family": it.family,
        "verdict": it.verdict,
        "params": {
            "total": it.total,
            "active": it.active,
            **it.towers,
            "components": dict(it.components),
            "active_components": dict(it.active_components),
        },
        "flops": {
            "seq": it.seq,
            "context": it.context,
            "source_seq": it.source,
            **it.flops,
            "six_n": it.six_n,
            "against_six_n": dict(it.against_six_n),
            "convention": "torch",
        },
        "kv_cache": {str(length): cache.total_bytes for length, cache in it.caches.items()},
        "max_seq_len": it.max_seq_len,
        "weights": dict(it.weights),
        "weights_as_published": dict(it.shipped),
        "memory": {
            mode: {"peak": held.peak, "devices": list(held.devices), "execution": held.execution or "sdpa"}
            for mode, held in it.memory.items()
        },
        "memory_not_counted": dict(it.uncounted),
    }


AGAINST = {
    "linear": "weights' products (tables have none)",
    "attention": "pairs of tokens, not in N",
    "other": "all else",
}
"""What the parts of a step are that differ from 6 N a token."""


class _Row(NamedTuple):
    """One figure: where it stands, what it says, and what explains it (`verb`, MODEL, `command`; or words alone)."""

    section: str
    label: str
    value: str
    command: str
    note: str = ""
    verb: str = "explain"


def _rows(it: Report) -> list[_Row]:
    """The figures of the page in order."""
    params, cache = "PARAMETERS", f"KV CACHE of one sequence{_other_caches(it)}, bf16"
    source = "" if it.source is None else f" + {'as many' if it.source == it.seq else f'{it.source:,}'} of a source"
    flops = f"FLOPS, {it.read}{source}, full attention{'' if source else ', a multiply-add is two'}"
    usual = it.seq is None or it.seq == 2048 <= (it.max_seq_len or 2048)
    at, context = ("", "") if usual else (f" --seq {it.seq}", f" --context {it.context}")
    rows = [
        _Row(params, "total", f"{it.total:,}", "params"),
        _Row(params, "active", f"{it.active:,}", "params.active", _share(it.active, it.total)),
    ]
    for name, elements in it.towers.items():
        label, command = (" active text", "params.active") if name == "active_text" else (f" {name}", "params")
        if name not in it.components:  # a tower is one, and stands among those
            rows.append(_Row(params, label, f"{elements:,}", command, _share(elements, it.total)))
    for name, elements in it.components.items():
        rows.append(_Row(params, f" {name}", f"{elements:,}", "params", _share(elements, it.total)))
        if (active := it.active_components[name]) != elements:
            rows.append(_Row(params, "  active of it", f"{active:,}", "params.active", _share(active, elements)))
    rows += [
        _Row(flops, "forward", si(it.flops["forward"], "FLOP"), f"flops.forward{at}"),
        _Row(flops, "training", si(it.flops["training"], "FLOP"), f"flops.training{at}"),
    ]
    if it.six_n is not None:
        rows.append(_Row(flops, " 6·N·tokens", si(it.six_n, "FLOP"), "", f"{it.flops['training'] / it.six_n - 1:+.1%}"))
        for name, part in it.against_six_n.items():
            value = si(it.trained[name], "FLOP")
            rows.append(_Row(flops, f"  {name}", value, AGAINST[name], f"{part:+.1%}", verb=""))
    if "decode" in it.flops:
        rows.append(_Row(flops, "one more token", si(it.flops["decode"], "FLOP"), f"flops.decode{context}"))
    for length, cached in it.caches.items():
        longest = it.max_seq_len or length
        note = "max" if length == it.max_seq_len else "beyond" if length > longest else ""
        rows.append(_Row(cache, f"{length:,}", binary(cached.total_bytes), f"kv_cache --seq {length}", note))
    rows += [_Row("WEIGHTS", name, binary(n), f"weights --dtype {name}") for name, n in it.weights.items()]
    if it.shipped:
        packed = max(it.shipped, key=lambda name: it.shipped[name])
        size = binary(sum(it.shipped.values()))
        rows.append(_Row("WEIGHTS", "as published", size, "", packed[:6], verb="checkpoint"))
    for mode, held in it.memory.items():
        what = (
            "bf16-mixed with AdamW, or bf16"
            if source or it.seq is None
            else "a step in bf16-mixed with AdamW, or served in bf16"
        )
        section = f"MEMORY, {it.read}{source}: {what}"
        rows.append(_Row(section, mode, binary(held.peak), f"--mode {mode}{at}{_kernels(held)}", verb="memory"))
    return rows


def _kernels(held: Held) -> str:
    """The option that counts memory under other kernels than the usual ones."""
    return "" if held.execution is None else f" --execution {held.execution}"


def _under(held: Held) -> str:
    """Says so where memory is counted under other kernels than the usual ones."""
    return "" if held.execution is None else f" under {held.execution} (what sdpa holds is not known)"


def _other_caches(it: Report) -> str:
    """Whose keys and values the cache holds beside those of the sequence."""
    if it.source is None:
        return ""
    return " and of a source as long" if it.source == it.seq else f" and a source of {it.source:,}"


def _fits(it: Report) -> str:
    """The smallest GPUs of the catalogue that hold it, and why a mode is not counted."""

    def least(devices: tuple[str, ...]) -> str:
        if not devices:
            return "no single device of the catalogue"
        return f"one {devices[0]} ({binary(load_device(devices[0]).usable)}) or larger"

    named = {"training": "training", "inference": "serving"}
    words = "; ".join(f"{named[mode]}{_under(held)} fits {least(held.devices)}" for mode, held in it.memory.items())
    fits = f"{words[:1].upper()}{words[1:]}, before the 0.5 to 1 GiB of CUDA's context. " if words else ""
    not_counted = (f"Memory of {named[mode]} is not counted ({reason})." for mode, reason in it.uncounted.items())
    return f"{fits}{' '.join(not_counted)}".rstrip()


def _page(it: Report, reference: str) -> str:
    """The page of one model, 80 columns wide; a reference too long for that is called MODEL in the commands."""
    page = _lines(it, reference)
    if max(map(len, page)) > WIDTH:
        page = [*_lines(it, "MODEL"), "", f"MODEL stands for {reference}"]
    return "\n".join(page)


def _lines(it: Report, reference: str) -> list[str]:
    rows = _rows(it)
    width = max(len(row.value) for row in rows) + 1
    lines = textwrap.wrap(f"{it.model} ({it.family}): {it.verdict}.", WIDTH)
    section = ""
    for row in rows:
        if row.section != section:
            section = row.section
            lines += ["", f"{section:<{22 + width}} python -m calc …" if section == "PARAMETERS" else section]
        command = f"{row.verb} {reference} {row.command}".rstrip() if row.verb else row.command
        if row.verb == "explain" and not row.command:
            command = "training against this rule"
        start = f" {row.label:<14}{row.value:>{width}} {row.note:>6} "
        command, option, more = command.partition(" --execution")
        lines.append(f"{start}{command}")
        if option:
            lines.append(f"{'':<{len(start)}} {option}{more}")
    return lines + textwrap.wrap(_fits(it), WIDTH - 1, initial_indent=" ", subsequent_indent=" ")


def _compared(reports: list[Report]) -> Table:
    """The figures of several models side by side, in the order of the page."""
    pages = [{(row.section, row.label): row.value for row in _rows(it)} for it in reports]
    sections = list(dict.fromkeys(section for page in pages for section, _ in page))
    order = ["total", "active", *get_args(Component)]

    def place(key: tuple[str, str]) -> tuple[int, int]:
        section, label = sections.index(key[0]), key[1].strip()
        if label in order:
            return section, order.index(label)
        digits = label.replace(",", "")
        return section, int(digits) if digits.isdigit() else 0

    keys = sorted(dict.fromkeys(key for page in pages for key in page if "of it" not in key[1]), key=place)
    names = {section: section.replace(",", "").split()[0].lower() for section in sections}
    rows = [
        (f"{names[section]} {label.strip()}", *(page.get((section, label), "–") for page in pages))
        for section, label in keys
    ]
    note = f"{sections[1]}; {sections[2]}; 6·N·tokens with N active"
    return Table(("", *(it.model for it in reports)), rows, note=note)


def _share(part: int, whole: int) -> str:
    return "100%" if part == whole else f"{part / whole:.1%}"
