"""What `run --suite scaling` prints: the fit, and the largest model as it was predicted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from calc.errors import Refused
from calc.output.tables import Table, emit
from calc.spec.fields import DeviceKind
from calc.units import parse_tokens, si
from harness.environment import probe
from harness.progress import TimeLeft
from harness.scaling.plan import STANDARD, Plan, Size
from harness.scaling.suite import Report, run


def planned(sizes: str | None, budgets: str | None) -> Plan:
    """The standard plan with other models or budgets, the models from small to large.

    Errors: Refused for fewer than four models, for what is no size, and for budgets that are no whole steps.
    """
    plan = STANDARD
    if sizes is not None:
        found = {_size(text) for text in sizes.split(",")}
        if len(found) < 4:
            raise Refused("--sizes", "four models or more: one is held out of a fit", sizes[:80])
        plan = replace(plan, sizes=tuple(sorted(found, key=lambda each: each.d_model**2 * each.n_layers)))
    if budgets is not None:
        plan = replace(plan, budgets=tuple(sorted({parse_tokens(text, "--budgets", 1) for text in budgets.split(",")})))
    return plan


def _size(text: str) -> Size:
    width, times, layers = text.strip().partition("x")
    if not (times and width.isdecimal() and layers.isdecimal() and int(width) % 8 == 0):
        raise Refused("--sizes", "WIDTHxLAYERS with a width that 8 divides, such as 64x3", text[:40])
    if not (16 <= int(width) <= 512 and 1 <= int(layers) <= 64):
        raise Refused("--sizes", "widths of 16 to 512 and 1 to 64 layers: these models are trained here", text[:40])
    if int(width) % max(1, int(width) // 16):
        raise Refused("--sizes", "a width that its heads of about 16 divide, such as one that 16 divides", text[:40])
    return Size(int(width), int(layers))


def scaling(results: Path, device: str | None, fresh: bool, listed: bool, fmt: str, plan: Plan = STANDARD) -> int:
    """Train, fit, predict, print; the status to exit with."""
    if listed:
        _list(plan, fmt)
        return 0
    environment = probe(cast("DeviceKind | None", device))
    progress = TimeLeft("scaling")
    try:
        found = run(plan, results, environment, lambda part, left: progress(int(100 * part), 100, left), fresh)
    finally:
        progress.close()
    emit([record(found)], _tables(found), fmt)
    return 0


def record(found: Report) -> dict[str, Any]:
    """The report as JSON. Losses and entropies in nats a token."""
    intervals = {name: each and each._asdict() for name, each in found.fit.intervals.items()}
    return {
        "runs": str(found.path),
        "dataset": found.dataset,
        "rows": found.fit.rows,
        "trained": found.trained,
        "law": found.fit.law,
        "constants": dict(found.fit.constants),
        "intervals": intervals,
        "entropy": found.floor,
        "unigram_entropy": found.unigram,
        "predictions": [{**each._asdict(), "error": each.error} for each in found.predictions],
        "warnings": list(found.fit.warnings),
    }


def _tables(found: Report) -> list[Table]:
    fit = found.fit
    rows = []
    for name, value in fit.constants.items():
        interval = fit.intervals.get(name)
        ends = (_number(interval.low), _number(interval.high)) if interval else ("–", "–")
        rows.append((name, _number(value), *ends))
    models = len({run for run, _ in found.rows}) - 1
    title = f"{models} models, {fit.rows} trainings: {fit.form.equation}"
    note = f"entropy of the language {found.floor:.4f}, of its tokens alone {found.unigram:.4f} nats a token"
    predicted = [
        (
            each.run,
            si(each.params),
            si(each.tokens),
            f"{each.predicted:.4f}",
            f"{each.measured:.4f}",
            f"{each.error:+.2%}",
        )
        for each in found.predictions
    ]
    columns = ("held out", "parameters", "tokens", "predicted", "measured", "error")
    again = f"python -m calc fit {found.path} --where dataset={found.dataset}"
    return [
        Table(("", "value", "95 % from", "to"), rows, title, note),
        Table(columns, predicted, "the largest model, which the fit has not seen", f"all of them: {again}"),
    ]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.5g}"


def _list(plan: Plan, fmt: str) -> None:
    rows = [plan.row(size, budget, 1.0) for size in plan.sizes for budget in plan.budgets]
    columns = ("run", "params_total", "tokens", "flops", "lr")
    records = [{name: row[name] for name in columns} for row in rows]
    shown = [
        (row["run"], f"{row['params_total']:,}", f"{row['tokens']:,}", si(row["flops"], "FLOP"), f"{row['lr']:.3g}")
        for row in rows
    ]
    emit(records, [Table(columns, shown, f"suite scaling: {len(rows)} trainings of {len(plan.sizes)} models")], fmt)
