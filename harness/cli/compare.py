"""`compare`: measured against predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from calc.errors import printable
from calc.output.tables import Table, emit
from calc.units import duration
from harness.cli.selection import nothing, selection
from harness.compare import BY, By, Comparison, Group, Pair, Part
from harness.compare import compare as compared
from harness.record import Run


@click.command(short_help="Measured against predicted: errors by group, component and case.")
@selection
@click.option(
    "--by", type=click.Choice(BY), default="kind", show_default=True, help="What makes a group, with its kind."
)
@click.option("--worst", type=click.IntRange(0, 10_000), default=10, show_default=True, help="Cases to show.")
@click.option("--every", is_flag=True, help="All runs of a case, not only the latest on each device.")
@click.option("--unstable", is_flag=True, help="Times too that moved too much to be relied on.")
@click.option("--json", "fmt", flag_value="json", default="table", help="One object a group and line.")
def compare(runs: list[Run], results: Path, by: By, worst: int, every: bool, unstable: bool, fmt: str) -> None:
    """Compare what was measured with what had been predicted before.

    The error of a case is |predicted - measured| / measured; MAPE is the mean over a group, `ratio` the geometric mean
    of measured over predicted, and `inside` the part of times that lie in the interval told. Runs that did not end
    `ok`, that beat a physical limit or that nothing was predicted for are left out and counted.

    \b
    Examples:
      python -m harness compare
      python -m harness compare --suite quick --by dtype --json
    """
    found = compared(runs, by, every, unstable=unstable)
    if not found.pairs:
        if fmt == "table":
            click.echo(nothing(results) + _left_out(found.left_out, "; "))
        return
    emit([record(group) for group in found.groups], tables(found, worst), fmt)


def record(group: Group) -> dict[str, Any]:
    """A group as one object."""
    return {
        "group": group.name,
        "device": group.device,
        "n": len(group.pairs),
        "mape": group.mape,
        "median_ape": group.median_ape,
        "ratio": group.ratio,
        "half_within": group.within(0.5),
        "nine_in_ten_within": group.within(0.9),
        "inside": group.inside,
    }


def tables(found: Comparison, worst: int) -> list[Table]:
    """Groups, components and the worst cases."""
    shown = [groups_table(found)]
    if found.parts:
        shown.append(_components(found.parts))
    if worst:
        shown.append(farthest(found.pairs[:worst]))
    return shown


def groups_table(found: Comparison) -> Table:
    """Errors by group."""
    columns = ("group", "device", "n", "ratio", "MAPE", "median", "inside")
    rows = [
        (
            printable(group.name),
            group.device,
            f"{len(group.pairs):,}",
            f"{group.ratio:.3f}",
            f"{group.mape:.1%}",
            f"{group.median_ape:.1%}",
            f"{group.inside:.0%}",
        )
        for group in found.groups
    ]
    return Table(columns, rows, "measured against predicted", _left_out(found.left_out))


def _components(parts: Sequence[Part]) -> Table:
    columns = ("group", "component", "n", "predicted", "measured", "ratio")
    rows = [
        (
            printable(part.group),
            printable(part.component),
            f"{part.n:,}",
            duration(part.predicted),
            duration(part.measured),
            f"{part.ratio:.3f}",
        )
        for part in parts
    ]
    return Table(columns, rows, "by component, summed over the cases that were taken apart")


def farthest(pairs: Sequence[Pair]) -> Table:
    """Single cases, in the order given."""
    columns = ("error", "ratio", "predicted", "measured", "case")
    rows = [
        (
            f"{pair.error:.1%}",
            f"{pair.ratio:.3f}",
            duration(pair.predicted),
            duration(pair.measured),
            printable(pair.run.case),
        )
        for pair in pairs
    ]
    return Table(columns, rows, "worst first")


def _left_out(reasons: Mapping[str, int], before: str = "") -> str:
    if not reasons:
        return ""
    each = ", ".join(f"{count:,} {printable(reason)}" for reason, count in sorted(reasons.items()))
    return f"{before}left out: {each}"
