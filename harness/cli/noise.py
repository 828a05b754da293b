"""`noise`: does the gate's rule hold on this machine?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import click

from calc.output.tables import Table, emit
from calc.spec.fields import DeviceKind
from harness.cases.case import Case
from harness.cli.interrupting import terminated_as_interrupted
from harness.cli.selection import measured_on, results
from harness.environment import probe
from harness.gating.noise import CASES, PLANTED, Noise, Trial, keep, self_test, summary
from harness.progress import TimeLeft
from harness.running.runner import choose_cases


@click.command(short_help="Try the gate's rule on this machine: nothing is SLOWER, and a planted slowdown is.")
@click.option("--tries", type=click.IntRange(1, 1000), default=20, show_default=True, help="Of either sort.")
@click.option("--case", "pattern", metavar="PATTERN", help="Only cases whose id holds this; * and ? for anything.")
@measured_on
@results
@click.option("--json", "fmt", flag_value="json", default="table", help="The record, as it is kept.")
def noise(tries: int, pattern: str | None, device: str | None, results: Path, fmt: str) -> int:
    """Compare this tree with itself, and with itself made 15 % slower, as `gate` would; add the record to
    RESULTS/noise/DEVICE.jsonl.

    The slowdown is work: of every 20 executions, three more. Exit status: 0 nothing was SLOWER without it and
    everything with it, 1 otherwise, 2 refused, 130 interrupted (and nothing is kept).

    \b
    Examples:
      python -m harness noise
      python -m harness noise --tries 2 --case layernorm --json
    """
    environment = probe(cast("DeviceKind | None", device))
    cases = choose_cases(CASES, pattern)
    begin, started = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    progress = TimeLeft("noise")

    def say(done: int, total: int) -> None:
        progress(done, total, (time.monotonic() - begin) / done * (total - done))

    try:
        with terminated_as_interrupted():
            found = self_test(environment, tries, cases, say)
    finally:
        progress.close()
    record = summary(started, time.monotonic() - begin, environment, tries, found)
    path = keep(record, results)
    emit([record.model_dump(mode="json")], [_table(record, cases, path)], fmt)
    return int(record.aa_slower > 0 or record.planted_missed > 0)


def _table(record: Noise, cases: Sequence[Case], path: Path) -> Table:
    columns = ("case", "change", "SLOWER", "looked at twice", "ratios", "largest noise")
    rows = [_row(case.id, planted, record.tries) for case in cases for planted in (0.0, PLANTED)]
    note = (
        f"{record.aa_slower} of {record.aa_tries} tries without a change were SLOWER, "
        f"{record.planted_tries - record.planted_missed} of {record.planted_tries} with one; "
        f"{record.wall:.0f} s; kept in {path}"
    )
    return Table(columns, rows, f"the gate's rule on {record.environment.name}", note)


def _row(case: str, planted: float, tries: Sequence[Trial]) -> tuple[str, ...]:
    mine = [each for each in tries if each.case == case and each.planted == planted]
    ratios = [each.ratio for each in mine]
    return (
        case,
        f"{planted:+.0%}" if planted else "none",
        f"{sum(each.verdict == 'SLOWER' for each in mine)} of {len(mine)}",
        f"{sum(each.looks > 1 for each in mine)}",
        f"{min(ratios):.3f} to {max(ratios):.3f}",
        f"{max(each.floor for each in mine):.1%}",
    )
