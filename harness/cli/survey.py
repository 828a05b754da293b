"""`survey`: what a device is worth, in one call of so many seconds."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any, cast

import click

from calc.errors import Refused
from calc.output.tables import Table, emit
from calc.spec.fields import DeviceKind
from calc.units import binary
from harness.cli.compare import farthest, groups_table, record
from harness.cli.interrupting import terminated_as_interrupted
from harness.cli.selection import load, measured_on, results
from harness.compare import compare
from harness.environment import probe
from harness.profiling.beforehand import profile_first
from harness.record import Environment, Run
from harness.running.observer import Cancelled, Observer, for_stderr
from harness.running.process import Worker
from harness.running.runner import Plan, Summary, find_profile, sweep
from harness.suites import suite_cases
from harness.survey import Peak, Ratio, allocator_reserve, peaks, ratios

SUITE = "survey"
PROFILE_SHARE = 0.35
"""Of the budget, for a device that has no profile yet."""
LEAST = 30.0
"""Seconds below which nothing is worth beginning."""


def seconds_of(text: str) -> float:
    """Seconds of `540`, `540s` or `9m`. Errors: Refused."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min)?", text.strip())
    seconds = float(found[1]) * (60 if (found[2] or "s").startswith("m") else 1) if found else 0.0
    if not LEAST <= seconds <= 86400:
        raise Refused("--budget", f"{LEAST:.0f}s to 1440m, such as 540s or 9m", text)
    return seconds


@click.command(short_help="What this device is worth, in so many minutes: profile, limits, models, memory.")
@click.option("--budget", default="540s", show_default=True, metavar="TIME", help="Of everything, as 540s or 9m.")
@measured_on
@click.option("--fresh", is_flag=True, help="Profile and measure again what stands for this commit.")
@results
@click.option("--json", "fmt", flag_value="json", default="table", help="One object.")
def survey(budget: str, device: str | None, fresh: bool, results: Path, fmt: str) -> int:
    """Say what the machine is, measure its profile, and then the suite `survey` by value for the minutes that are left:
    the limits and what good kernels reach of them, whole models, peaks of memory, kernels of every kind.

    Each case is predicted before it is measured and its line is on the disk when it ends: a call that is cut off loses
    nothing, and the next one goes on with the rest. Aims are those of a data centre's GPU; a CPU has none. Exit status:
    0 done, 1 a case crashed, ran out of memory or out of time, 2 refused, 130 interrupted.

    \b
    Examples:
      python -m harness survey
      python -m harness survey --budget 9m --device cuda
    """
    end = time.monotonic() + seconds_of(budget)
    observer = for_stderr()
    with terminated_as_interrupted():
        try:
            summary, environment = _measure(device, fresh, results, end, observer)
        except (Cancelled, KeyboardInterrupt):
            return 130
    rows = [run for run in load(results) if run.environment.slug == environment.slug]
    _tell(summary, rows, environment, fmt)
    return summary.exit_status


def _measure(
    device: str | None, fresh: bool, results: Path, end: float, observer: Observer
) -> tuple[Summary, Environment]:
    """The profile, where this machine has none of its own, and the suite in what is left of the time."""
    environment = probe(cast("DeviceKind | None", device))
    if environment.device == "cpu":
        # Before torch is imported anywhere: our Triton kernels run in its interpreter there.
        os.environ.setdefault("TRITON_INTERPRET", "1")
    own = results / "profiles" / f"{environment.slug}.json"
    if fresh or not own.is_file():
        profile_first(PROFILE_SHARE * (end - time.monotonic()), environment.device, results, observer)
    with Worker(environment.device, observer.tick) as worker:
        speed, cases = find_profile(None, results, worker.environment), suite_cases(SUITE, environment)
        left = max(1.0, end - time.monotonic())
        return sweep(Plan(cases, SUITE, results, speed, fresh, budget=left), worker, observer), environment


def _tell(summary: Summary, rows: list[Run], environment: Environment, fmt: str) -> None:
    found = compare(rows, wanted=lambda run: run.suite == SUITE)
    shares, memory = ratios(rows, environment), peaks(rows, environment)
    document = {
        "environment": environment.model_dump(mode="json"),
        "measured": summary.statuses,
        "known": summary.known,
        "left": summary.left,
        "groups": [record(group) for group in found.groups],
        "ratios": [{"ratio": each.name, "aim": each.aim, "value": each.value, "why": each.why} for each in shares],
        "peaks": [{"case": each.case, "counted": each.counted, "measured": each.measured} for each in memory],
        "allocator_reserve": allocator_reserve(memory),
    }
    shown = [groups_table(found), farthest(found.pairs[:5])] if found.pairs else []
    shown += [_memory(memory)] if memory else []
    shown += [_limits(shares)] if environment.device == "cuda" else []
    shown.append(_end(summary, environment))
    emit([document], shown, fmt)


def _limits(shares: list[Ratio]) -> Table:
    words: dict[bool | None, str] = {True: "reached", False: "missed", None: ""}
    rows: list[tuple[Any, ...]] = [
        (
            each.name,
            "–" if each.aim is None else f"≥ {each.aim:.2f}",
            each.why if each.value is None else f"{each.value:.3f}",
            words[each.met],
        )
        for each in shares
    ]
    return Table(("share of a limit", "aim", "measured", ""), rows, "limits")


def _memory(found: list[Peak]) -> Table:
    rows = [(each.case, binary(each.counted), binary(each.measured), f"{each.error:.1%}") for each in found]
    reserve = allocator_reserve(found)
    note = "" if reserve is None else f"the allocator takes {reserve - 1:.1%} more from the device than tensors do"
    return Table(("training step", "counted", "measured", "error"), rows, "peaks of memory, worst first", note)


def _end(summary: Summary, environment: Environment) -> Table:
    rows = [("device", environment.name), ("memory", binary(environment.memory)), ("torch", environment.torch)]
    rows += [(status, str(count)) for status, count in sorted(summary.statuses.items())]
    rows += [("measured before", str(summary.known))] if summary.known else []
    left = f"{summary.left} cases are left: the same command goes on" if summary.left else ""
    return Table(("", ""), rows, "survey", left)
