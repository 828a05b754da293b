"""`store`: what can be said of the files of results themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from calc.errors import printable
from calc.output.tables import Table, emit
from harness.store import RESULTS, files, is_checked, lines, scan_file


@click.group(short_help="The files of results themselves: `store check`.")
def store() -> None:
    """The files of results themselves."""


@store.command(short_help="Whether every line is a run, and as it was written.")
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, show_default=True, help="Folder.")
@click.option("--json", "fmt", flag_value="json", default="table", help="One object a file.")
def check(results: Path, fmt: str) -> int:
    """Read every line under results/runs, and name each that is no run or no longer as it was written.

    Lines of versions that wrote no digest are counted as unchecked. Exit status: 1 where a line is bad.

    \b
    Example:
      python -m harness store check
    """
    records = [_checked(path) for path in files(results)]
    for record in records:
        for fault in record["faults"]:
            click.echo(fault, err=True)
    rows = [(record["file"], *(f"{n:,}" for n in _numbers(record))) for record in records]
    note = "" if rows else printable(f"no results under {results}")
    emit(records, [Table(("file", "runs", "unchecked", "bad"), rows, "", note)], fmt)
    return int(any(record["faults"] for record in records))


def _numbers(record: dict[str, Any]) -> tuple[int, int, int]:
    return record["runs"], record["unchecked"], len(record["faults"])


def _checked(path: Path) -> dict[str, Any]:
    runs, faults = scan_file(path)
    unchecked = sum(not is_checked(line) for _, line in lines(path))
    return {
        "file": printable(str(path)),
        "runs": len(runs),
        "unchecked": unchecked,
        "faults": [str(fault) for fault in faults],
    }
