"""`gate`: is this tree slower than another commit, or does it count differently?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import click

from calc.errors import Refused, printable
from calc.output.tables import Table, emit
from calc.reading.numbers import Number
from calc.spec.fields import DeviceKind
from harness.cases.case import Case
from harness.cli.interrupting import terminated_as_interrupted
from harness.cli.selection import measured_on
from harness.environment import ROOT, probe
from harness.gating.commit import files_of
from harness.gating.decision import LEAST
from harness.gating.gate import Row, counted, fails, timed, two_trees
from harness.gating.session import Clock, Effort, Sides
from harness.progress import TimeLeft
from harness.running.runner import choose_cases
from harness.suites import SUITES, suite_cases


@click.command(short_help="Is this tree slower than another commit, or counted differently?")
@click.option("--against", required=True, metavar="GITREF", help="The commit, branch or tag to compare with.")
@click.option("--case", "pattern", metavar="PATTERN", help="Only cases whose id holds this; * and ? for anything.")
@click.option("--suite", type=click.Choice(list(SUITES)), default="quick", show_default=True, help="Which cases.")
@measured_on
@click.option(
    "--least",
    type=Number(0.005, 10),
    default=LEAST,
    show_default=True,
    help="A smaller relative change of time is none; 0.5 makes time a wide tripwire.",
)
@click.option(
    "--threads", type=click.IntRange(1, 1024), default=1, show_default=True, help="Of each process, on a CPU."
)
@click.option("--clock", type=click.Choice(["cpu", "wall"]), help="What is measured. [default: cpu; wall on a GPU]")
@click.option("--rounds", type=click.IntRange(3, 1000), default=Effort.rounds, show_default=True, help="Samples each.")
@click.option("--counts-only", is_flag=True, help="Compare what is counted, and measure no time.")
@click.option("--allow-count-changes", is_flag=True, help="Let counts and memory differ.")
@click.option("--json", "fmt", flag_value="json", default="table", help="One object a case and line.")
def gate(
    against: str,
    pattern: str | None,
    suite: str,
    device: str | None,
    least: float,
    threads: int,
    clock: str | None,
    rounds: int,
    counts_only: bool,
    allow_count_changes: bool,
    fmt: str,
) -> int:
    """Measure this tree (B) and GITREF (A, in a temporary folder) in turn, in six processes each.

    A case is SLOWER or FASTER where the interval of B/A lies beyond --least, with processes of equal code as the
    measure of noise; SAME where it lies within 10 %; else AMBIGUOUS, and measured once more. FLOPs, bytes, parameters
    and memory of every case, and what its model keeps for backward, must be equal, or it is CHANGED.

    On a CPU the clock is the processes' own time, which neighbours take nothing of; what waits needs --clock wall.
    Exit status: 0 open, 1 something is SLOWER, BROKEN or CHANGED, 2 refused, 130 interrupted.

    \b
    Examples:
      python -m harness gate --against main
      python -m harness gate --against HEAD~1 --case "forward/*tiny-gpt*" --json
      python -m harness gate --against origin/main --least 0.5 \\
          --allow-count-changes
    """
    environment = probe(cast("DeviceKind | None", device))
    cases = choose_cases(suite_cases(suite, environment), pattern)
    effort = Effort(rounds=rounds)
    if clock == "cpu" and environment.device == "cuda":
        raise Refused("--clock", "wall for a GPU, whose time is none of the process's", clock)
    chosen = cast("Clock | None", clock)
    with (
        terminated_as_interrupted(),
        files_of(ROOT, against) as (tree, commit),
        two_trees(tree, ROOT, environment.device, threads, clock=chosen) as sides,
    ):
        rows = _rows(cases, sides, effort, least, counts_only)
    emit([record(row) for row in rows], [_table(rows, commit, least)], fmt)
    return int(fails(rows, allow_count_changes))


def _rows(cases: Sequence[Case], sides: Sides, effort: Effort, least: float, counts_only: bool) -> list[Row]:
    """Counts of all, and then the time of those that both sides can run."""
    progress = TimeLeft("gate")
    try:
        found = counted(cases, sides)
        begin, rows = time.monotonic(), []
        for number, row in enumerate(found):
            if row.verdict == "COUNTED" and not counts_only:
                row = replace(timed(row.case, sides, effort, least), counts=row.counts)
            rows.append(row)
            passed = time.monotonic() - begin
            progress(number + 1, len(found), passed / (number + 1) * (len(found) - number - 1))
        return rows
    finally:
        progress.close()


def record(row: Row) -> dict[str, Any]:
    """A row as JSON. ratio: B over A, with its interval; changed: counts that differ, by name."""
    change = row.change
    return {
        "case": row.case.id,
        "kind": row.case.kind,
        "verdict": row.verdict,
        "ratio": change and change.ratio,
        "low": change and change.low,
        "high": change and change.high,
        "floor": change and change.floor,
        "looks": row.looks,
        "changed": {name: {"a": a, "b": b} for name, a, b in row.counts},
        "reason": row.reason,
    }


def _table(rows: Sequence[Row], commit: str, least: float) -> Table:
    shown = []
    for row in rows:
        ratio = between = floor = "–"
        if row.change is not None:
            ratio, floor = f"{row.change.ratio:.3f}", f"{row.change.floor:.1%}"
            between = f"{row.change.low:.3f} to {row.change.high:.3f}"
        why = "; ".join([*([row.reason] if row.reason else []), *map(_changed, row.counts)])
        verdict = f"{row.verdict}, CHANGED" if row.counts else row.verdict
        shown.append((verdict, ratio, between, floor, printable(row.case.id), printable(why)))
    verdicts = [row.verdict for row in rows]
    numbers = ", ".join(f"{verdicts.count(each)} {each}" for each in dict.fromkeys(verdicts))
    changed = sum(bool(row.counts) for row in rows)
    note = f"{numbers}; counts and memory of {changed} differ; a change below {least:.3g} is none"
    columns = ("", "B / A", "between", "noise", "case", "why")
    return Table(columns, shown, f"A: {commit}   B: this tree", note)


def _changed(count: tuple[str, float | None, float | None]) -> str:
    name, before, after = count
    words = ["none" if each is None else f"{each:,.0f}" for each in (before, after)]
    return f"{name} {words[0]} -> {words[1]}"
