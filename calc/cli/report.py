"""`report`: the main job, everything a model costs on one page of 80 columns."""

from __future__ import annotations

import textwrap
from typing import Any, NamedTuple, get_args

import click

from calc.cli import options
from calc.cli.output import Table, emit
from calc.op import Component
from calc.spec import ModelSpec
from calc.summary import Report, common_length
from calc.summary import report as make_report
from calc.units import binary, si

WIDTH = 80


@click.command(short_help="Everything a model costs, on one page.")
@options.models
@options.output
def report(models: tuple[ModelSpec, ...], fmt: str) -> None:
    """Print parameters, FLOPs, KV cache and weight bytes of MODEL; several MODELs side by side.

    Beside each row stands the command that shows its formula (behind `python -m calc`).

    \b
    Examples:
      python -m calc report llama-3-8b
      python -m calc report path/to/config.json --json
    """
    seq = common_length(models)
    reports = [make_report(spec, seq) for spec in models]
    records = [_record(it) for it in reports]
    if fmt == "table" and len(reports) == 1:
        click.echo(_page(reports[0]))
        return
    emit(records, [_compared(reports)], fmt)


def _record(it: Report) -> dict[str, Any]:
    return {
        "model": it.model,
        "family": it.family,
        "verdict": it.verdict,
        "params": {"total": it.total, "active": it.active, "components": dict(it.components)},
        "flops": {"seq": it.seq, **it.flops, "six_n": it.six_n, "convention": "torch"},
        "kv_cache": {str(length): cache.total_bytes for length, cache in it.caches.items()},
        "max_seq_len": it.max_seq_len,
        "weights": dict(it.weights),
    }


class _Row(NamedTuple):
    """One figure: where it stands, what it says, and what explains it."""

    section: str
    label: str
    value: str
    command: str
    note: str = ""


def _rows(it: Report) -> list[_Row]:
    """The figures of the page in order."""
    at = "" if it.seq == 2048 else f" --seq {it.seq}"
    context = "" if it.seq == 2048 else f" --context {it.seq}"
    flops = f"FLOPS, {it.seq:,} tokens, full attention, a multiply-add is two"
    rows = [
        _Row("PARAMETERS", "total", f"{it.total:,}", "params"),
        _Row("PARAMETERS", "active", f"{it.active:,}", "params.active", _share(it.active, it.total)),
    ]
    for name, elements in it.components.items():
        rows.append(_Row("PARAMETERS", f" {name}", f"{elements:,}", "params", _share(elements, it.total)))
    rows += [
        _Row(flops, "forward", si(it.flops["forward"], "FLOP"), f"flops.forward{at}"),
        _Row(flops, "training", si(it.flops["training"], "FLOP"), f"flops.training{at}"),
        _Row(flops, " 6·N·tokens", si(it.six_n, "FLOP"), "", f"{it.flops['training'] / it.six_n - 1:+.1%}"),
        _Row(flops, "one more token", si(it.flops["decode"], "FLOP"), f"flops.decode{context}"),
    ]
    for length, cache in it.caches.items():
        longest = "max" if length == it.max_seq_len else ""
        size = binary(cache.total_bytes)
        rows.append(_Row("KV CACHE of one sequence, bf16", f"{length:,}", size, f"kv_cache --seq {length}", longest))
    rows += [_Row("WEIGHTS", name, binary(n), f"weights --dtype {name}") for name, n in it.weights.items()]
    return rows


def _page(it: Report) -> str:
    """The page of one model, 80 columns wide; a name too long for that is called MODEL in the commands."""
    page = _lines(it, it.model)
    if max(map(len, page)) > WIDTH:
        page = [*_lines(it, "MODEL"), "", *textwrap.wrap(f"MODEL stands for {it.model}, by name or path.", WIDTH)]
    return "\n".join(page)


def _lines(it: Report, model: str) -> list[str]:
    lines = textwrap.wrap(f"{it.model} ({it.family}): {it.verdict}.", WIDTH)
    section = ""
    for row in _rows(it):
        if row.section != section:
            section = row.section
            lines += ["", f"{section:<37} python -m calc …" if section == "PARAMETERS" else section]
        command = f"explain {model} {row.command}" if row.command else "by how much training misses the rule"
        lines.append(f" {row.label:<14}{row.value:>15} {row.note:>6} {command}")
    return lines


def _compared(reports: list[Report]) -> Table:
    """The figures of several models side by side, in the order of the page."""
    pages = [{(row.section.split(",")[0], row.label): row.value for row in _rows(it)} for it in reports]
    order = ["total", "active", *get_args(Component)]
    sections = list(dict.fromkeys(section for page in pages for section, _ in page))

    def place(key: tuple[str, str]) -> tuple[int, int]:
        section, label = key
        if label.strip() in order:
            return sections.index(section), order.index(label.strip())
        return sections.index(section), int(label.replace(",", "")) if label[0].isdigit() else 0

    keys = sorted(dict.fromkeys(key for page in pages for key in page), key=place)
    rows = [
        (f"{section.split()[0].lower()} {label.strip()}", *(page.get((section, label), "–") for page in pages))
        for section, label in keys
    ]
    return Table(("", *(it.model for it in reports)), rows)


def _share(part: int, whole: int) -> str:
    return "100%" if part == whole else f"{part / whole:.1%}"
