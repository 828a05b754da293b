"""`diff`: two devices, two commits or two folders of results against each other."""

from __future__ import annotations

from pathlib import Path

import click

from calc.errors import Refused, printable
from calc.output.tables import Table, emit
from calc.reading.numbers import Number
from calc.units import duration
from harness.cli.selection import fits, load, results
from harness.diff import Change, Difference, difference, side
from harness.record import Run


@click.command(short_help="Two devices, two commits or two folders of results, case by case.")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@results
@click.option("--device", help="Only this device, as `runs/` calls it, or the beginning of one.")
@click.option(
    "--least",
    type=Number(0, 10),
    default=0.0,
    show_default=True,
    help="Relative change that counts, as 0.05.",
)
@click.option("--all", "every", is_flag=True, help="Show cases that are the SAME too.")
@click.option("--json", "fmt", flag_value="json", default="table", help="One object a case and line.")
def diff(a: str, b: str, results: Path, device: str | None, least: float, every: bool, fmt: str) -> int:
    """Compare the latest measured runs of the cases that A and B both have. Each is a device or a commit that has
    results, the beginning of its name, or a folder of results.

    The ratio is B's seconds over A's, with the interval that both medians' 95 % intervals allow; a case is FASTER or
    SLOWER where they do not meet. Exit status: 0 nothing is slower, 1 something is, 2 refused.

    \b
    Examples:
      python -m harness diff 824ac69 c26e5a6
      python -m harness diff nvidia-h100 nvidia-h200 --all
      python -m harness diff results ../other/results --least 0.05 --json
    """

    def read(folder: Path) -> list[Run]:
        return [run for run in load(folder) if fits(run, device)]

    runs = read(results)
    if not runs and not (Path(a).is_dir() and Path(b).is_dir()):
        raise Refused("--results", "runs, such as `python -m harness run` makes", f"none under {results}")
    found = difference(side(a, runs, read), side(b, runs, read), least)
    emit([_record(change) for change in found.changes], _tables(found, every), fmt)
    return int(found.count("SLOWER") > 0)


def _record(change: Change) -> dict[str, object]:
    return {
        "case": change.case,
        "kind": change.kind,
        "a": change.before,
        "b": change.after,
        "ratio": change.ratio,
        "low": change.low,
        "high": change.high,
        "verdict": change.verdict,
    }


def _tables(found: Difference, every: bool) -> list[Table]:
    rows = [
        (
            change.verdict,
            f"{change.ratio:.3f}",
            f"{change.low:.3f} to {change.high:.3f}",
            duration(change.before),
            duration(change.after),
            printable(change.case),
        )
        for change in found.changes
        if every or change.verdict != "SAME"
    ]
    counts = ", ".join(f"{found.count(verdict):,} {verdict}" for verdict in ("SLOWER", "SAME", "FASTER"))
    note = f"{len(found.changes):,} cases: {counts}; geometric mean {found.ratio:.3f}"
    if found.only_a or found.only_b:
        note += f"; only A has {found.only_a:,} more, only B {found.only_b:,}"
    title = printable(f"A: {found.a.kind} {found.a.name}   B: {found.b.kind} {found.b.name}")
    return [Table(("", "B / A", "between", "A", "B", "case"), rows, title, note)]
