"""`check-prediction`: profile this machine, predict what the profile never saw, measure it, and judge."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from calc.output.tables import emit
from calc.reading.numbers import Number
from harness.cli.compare import record, tables
from harness.cli.interrupting import terminated_as_interrupted
from harness.cli.selection import load, results
from harness.compare import Comparison, compare
from harness.environment import PYTHON, child_variables

SUITE = "unseen"


@click.command(short_help="Profile this machine, predict eight unseen GPTs, measure them, and judge.")
@results
@click.option("--keep-profile", is_flag=True, help="Predict with the profile that is there.")
@click.option("--limit", type=Number(0.001, 10), default=0.08, show_default=True, help="MAPE that passes.")
@click.option("--device", type=click.Choice(["cuda", "cpu"]), default="cpu", show_default=True, help="Where.")
@click.option("--json", "fmt", flag_value="json", default="table", help="One object a group and line.")
def check_prediction(results: Path, keep_profile: bool, limit: float, device: str, fmt: str) -> int:
    """Run `profile`, then the suite `unseen`: forward passes and training steps of eight GPTs of 192 to 768 channels,
    fp32 and bf16, with attention in the open and in one kernel; each forecast is on disk before its measurement. Takes
    about ten minutes on two cores.

    Exit status: 0 where the mean errors of forward passes and of training steps are within --limit, 1 where one is not
    or a case failed, 2 refused.

    \b
    Examples:
      python -m harness check-prediction
      python -m harness check-prediction --keep-profile --json
    """
    common = ["--results", str(results), "--device", device]
    if not keep_profile and (status := _run("profile", *common)):
        return status
    before = {run.run for run in load(results)}
    if (status := _run("run", "--suite", SUITE, "--fresh", *common)) > 1:
        return status
    # Only what this call measured is judged: results are appended to.
    found = compare(load(results), wanted=lambda run: run.suite == SUITE and run.run not in before)
    emit([record(group) for group in found.groups], tables(found, 10), fmt)
    return max(status, int(not passes(found, limit)))


def passes(found: Comparison, limit: float) -> bool:
    """Whether forward passes and training steps were measured, and the mean error of each is within `limit`."""
    errors = {group.name: group.mape for group in found.groups}
    return all(errors.get(kind, limit + 1) <= limit for kind in ("forward", "training"))


def _run(*arguments: str) -> int:
    """A command of this program in a process of its own, its tables on stderr; its exit status."""
    with terminated_as_interrupted():
        command = [*PYTHON, "-m", "harness", *arguments]
        return subprocess.run(command, stdout=sys.stderr, env=child_variables(), check=False).returncode
