"""`report`: the main job, everything a model costs on one page of 80 columns."""

from __future__ import annotations

from typing import Any

import click

from calc.cli import options
from calc.cli.output import Table, emit, side_by_side
from calc.report import Report
from calc.report import report as make_report
from calc.spec.model import ModelSpec
from calc.units import binary, si


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
    reports = [make_report(spec) for spec in models]
    records = [_record(it) for it in reports]
    if fmt == "table" and len(reports) == 1:
        reference = click.get_current_context().params.get("reference", reports[0].model)
        click.echo(_page(reports[0], str(reference)))
        return
    tables = [side_by_side(records)] if len(reports) > 1 or fmt == "markdown" else []
    emit(records, tables, fmt)


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


def _page(it: Report, model: str) -> str:
    short = model if len(model) <= 18 else "MODEL"
    lines = [f"{it.model} · {it.family}", it.verdict, "", _row("PARAMETERS", "", "", "python -m calc …")]

    def row(label: str, value: str, note: str, command: str) -> None:
        lines.append(_row(label, value, note, f"explain {short} {command}"))

    row("  total", f"{it.total:,}", "", "params")
    row("  active", f"{it.active:,}", _share(it.active, it.total), "params.active")
    for name, elements in it.components.items():
        row(f"    {name}", f"{elements:,}", _share(elements, it.total), "params")
    tokens = f"{it.seq:,}"
    lines += ["", f"FLOPS of a sequence of {tokens} tokens, full attention, multiply-add = 2"]
    seq = "" if it.seq == 2048 else f" --seq {it.seq}"
    row("  forward", si(it.flops["forward"], "FLOP"), "", f"flops.forward{seq}")
    row("  training", si(it.flops["training"], "FLOP"), "", f"flops.training{seq}")
    off = it.flops["training"] / it.six_n - 1
    lines.append(f"    6·N·tokens would say {si(it.six_n, 'FLOP')}; the exact count is {off:+.1%}".replace("-", "−"))
    row("  decode a token", si(it.flops["decode"], "FLOP"), "", f"flops.decode --context {it.seq - 1}")
    lines += ["", "KV CACHE of one sequence, bf16"]
    for length, cache in it.caches.items():
        note = "longest" if length == it.max_seq_len else ""
        row(f"  {length:,} tokens", binary(cache.total_bytes), note, f"kv_cache --seq {length}")
    lines += ["", "WEIGHTS"]
    for name, n_bytes in it.weights.items():
        row(f"  {name}", binary(n_bytes), "", f"weights --dtype {name}")
    if short != model:
        lines += ["", f"MODEL is {model}"]
    return "\n".join(line.rstrip() for line in lines)


def _row(label: str, value: str, note: str, command: str) -> str:
    return f"{label:<19}{value:>16} {note:>7}  {command}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}"
