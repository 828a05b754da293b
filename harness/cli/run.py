"""`run`: measure a suite of cases on this machine, each predicted first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from calc.errors import Refused
from calc.output.tables import Table, emit
from calc.reading.numbers import Number
from calc.time.device.profile import Profile
from calc.units import duration, si
from harness.cases.case import Case
from harness.cli.interrupting import terminated_as_interrupted
from harness.cli.ranks import place_for, rank_cases, run_ranks
from harness.cli.scaling import planned, scaling
from harness.cli.selection import measured_on
from harness.profiling.beforehand import profile_first
from harness.ranks.start import Place
from harness.ranks.suites import RANK_SUITES
from harness.record import Environment, Run
from harness.running.jobs import JobObserver
from harness.running.observer import Cancelled, for_stderr
from harness.running.process import Worker
from harness.running.runner import TIMEOUT, Plan, Summary, choose_cases, find_profile, sweep
from harness.store import RESULTS
from harness.suites import SUITES, budget, suite_cases


@click.command(short_help="Measure a suite of cases, each predicted first.")
@click.option(
    "--suite",
    type=click.Choice([*SUITES, *RANK_SUITES, "scaling"]),
    metavar="SUITE",
    default="quick",
    show_default=True,
    help=f"Which cases: {', '.join((*SUITES, *RANK_SUITES, 'scaling'))}.",
)
@click.option(
    "--case", "pattern", metavar="PATTERN", help="Only cases whose id holds this; * and ? stand for anything."
)
@click.option("--sizes", metavar="WIDTHxLAYERS,…", help="scaling: its models, such as 16x1,32x2,64x3; widths by 16.")
@click.option("--budgets", metavar="TOKENS,…", help="scaling: training tokens, multiples of 1,280.")
@click.option("--fresh", is_flag=True, help="Measure again what has been measured on this commit.")
@measured_on
@click.option(
    "--results", type=click.Path(path_type=Path), default=RESULTS, show_default=True, help="Where results go."
)
@click.option("--profile", metavar="FILE", help="What predicts. [default: profiles/DEVICE.json of the results]")
@click.option(
    "--profile-time",
    type=Number(1, 3600),
    metavar="SECONDS",
    help="First measure a profile of this machine for so long.",
)
@click.option("--timeout", type=Number(1, 86400), default=TIMEOUT, show_default=True, help="Seconds of a case at most.")
@click.option("--cluster", metavar="FILE", help="Of collectives, parallel: what predicts. [default: calibrated first]")
@click.option("--list", "listed", is_flag=True, help="Print the cases, and run none.")
@click.option("--json", "fmt", flag_value="json", default="table", help="One object a case and line.")
@click.option("--job", hidden=True, help="The job under the results whose state is to be kept.")
def run(
    suite: str,
    pattern: str | None,
    sizes: str | None,
    budgets: str | None,
    fresh: bool,
    device: str | None,
    results: Path,
    profile: str | None,
    profile_time: float | None,
    timeout: float,
    cluster: str | None,
    listed: bool,
    fmt: str,
    job: str | None,
) -> int:
    """Run the cases of a suite one after the other in a child process; add a line a case to RESULTS/runs/DEVICE/.

    `collectives` and `parallel` are for the ranks that torchrun starts; the first calibrates a description of the
    cluster, RESULTS/clusters/NAME.toml, which --cluster of `calc plan` and `calc predict` reads too.
    `scaling` trains tiny models instead, adds their losses to RESULTS/scaling/DEVICE/runs.csv and fits a law to them.

    A second start goes on where the first one ended. A crash, an endless loop or a lack of memory costs one case.
    Exit status: 0 done, 1 a case crashed, ran out of memory or out of time, 2 refused, 130 interrupted.

    \b
    Examples:
      python -m harness run
      python -m harness run --suite kernels --case matmul --json
      python -m harness run --suite full --list
      python -m harness run --suite scaling
      torchrun --nproc-per-node 2 -m harness run --suite collectives
    """
    place, shape = place_for(suite), {"sizes": sizes, "budgets": budgets}
    of_cases = {"profile": profile, "profile_time": profile_time, "job": job}
    of_cases["timeout"] = timeout if timeout != TIMEOUT else None
    if place is not None:
        _unused(suite, **shape, **of_cases)
        chosen = {"pattern": pattern, "fresh": fresh, "device": device}
        return _print_ranks(suite, place, results, cluster, listed, fmt, **chosen)
    if cluster is not None:
        raise Refused("--cluster", f"--suite {' or '.join(RANK_SUITES)} beside it", suite)
    with terminated_as_interrupted():
        if suite == "scaling":
            _unused(suite, case=pattern, **of_cases)
            return scaling(results, device, fresh, listed, fmt, planned(sizes, budgets))
        for name, value in shape.items():
            if value is not None:
                raise Refused(f"--{name}", "--suite scaling beside it", suite)
        asked = _Asked(suite, pattern, results, device, profile, profile_time, fresh, timeout)
        return _run_here(asked, listed, fmt, JobObserver(job, results) if job else for_stderr())


def _unused(suite: str, **given: object) -> None:
    """Errors: Refused for an option that has nothing to say about a suite, where it is given."""
    why = "has models, not cases" if suite == "scaling" else "is measured by its ranks together"
    for name, value in given.items():
        if value is not None:
            raise Refused(f"--{name.replace('_', '-')}", f"another suite than {suite}, which {why}", str(value)[:80])


@dataclass(frozen=True)
class _Asked:
    """The words of `run` for a suite of one process, as given."""

    suite: str
    pattern: str | None
    results: Path
    device: str | None
    profile: str | None
    profile_time: float | None
    fresh: bool
    timeout: float


def _run_here(asked: _Asked, listed: bool, fmt: str, observer: Any) -> int:
    """Measure, or list, a suite of one process, and print its rows; the status to exit with."""
    results = asked.results
    try:
        if asked.profile_time is not None and not listed:
            profile_first(asked.profile_time, asked.device, results, observer)
        with Worker(asked.device, observer.tick) as worker:  # pyright: ignore[reportArgumentType]
            here = worker.environment
            cases = choose_cases(suite_cases(asked.suite, here), asked.pattern)
            if listed:
                _list(cases, asked.suite, fmt)
                return 0
            speed = find_profile(asked.profile, results, here)
            if speed is not None and (why := measured_otherwise(speed, here)):
                click.echo(f"note: {why}", err=True)
            plan = Plan(cases, asked.suite, results, speed, asked.fresh, asked.timeout, budget(asked.suite, here))
            summary = sweep(plan, worker, observer)
    except Cancelled:
        observer.end(interrupted=True)
        return 130
    emit([short_row(row) for row in summary.rows], [_table(summary, asked.suite, results)], fmt)
    return summary.exit_status


def _print_ranks(
    suite: str, place: Place, results: Path, cluster: str | None, listed: bool, fmt: str, **chosen: Any
) -> int:
    """Measure, or list, a suite of ranks; the first of them prints. The status to exit with."""
    if listed:
        if place.first:
            _list(rank_cases(suite, place, chosen["device"], chosen["pattern"]), suite, fmt)
        return 0
    summary = run_ranks(suite, place, results, cluster, **chosen)
    if place.first:
        emit([short_row(row) for row in summary.rows], [_table(summary, suite, results)], fmt)
    return summary.exit_status


def measured_otherwise(profile: Profile, here: Environment) -> str:
    """What of a measured profile's machine is not as here, in one line; empty where nothing is that it tells."""
    now = {"cpu": here.cpu, "threads": here.threads, "torch": here.torch}
    if profile.kind == "cuda":
        del now["threads"], now["cpu"]
    then = {name: profile.environment[name] for name in now if name in profile.environment}
    other = [f"{name} {value} there, {now[name]} here" for name, value in then.items() if value != now[name]]
    again = "`python -m harness profile` measures another"
    return f"the profile {profile.name} was measured otherwise: {', '.join(other)}; {again}" if other else ""


def _list(cases: Sequence[Case], suite: str, fmt: str) -> None:
    records = [{"case": case.id, "kind": case.kind, "params": case.params} for case in cases]
    title = f"suite {suite}: {len(cases)} case{'s' if len(cases) != 1 else ''}"
    emit(records, [Table(("kind", "case"), [(case.kind, case.id) for case in cases], title)], fmt)


def short_row(row: Run) -> dict[str, Any]:
    """The row without its single samples, which are in the file."""
    return row.model_dump(mode="json", exclude={"measurement": {"samples"}})


def _table(summary: Summary, suite: str, results: Path) -> Table:
    columns = ("status", "case", "time", "±", "predicted", "ratio", "rate", "why")
    rows, spare = [_row(run) for run in summary.rows], ("rate", "±", "predicted", "ratio")
    return Table(columns, rows, f"suite {suite}", note_of(summary, results), spare=spare, whole="case")


def _row(run: Run) -> tuple[str, ...]:
    measured, forecast = run.measurement, run.forecast
    time = half = ratio = rate = "–"
    if measured is not None:
        time, half = duration(measured.seconds), f"{measured.width / 2:.1%}"
        if forecast is not None:
            ratio = f"{measured.seconds / forecast.seconds:.3f}"
        for name, unit in (("tokens", "tok/s"), ("flops", "FLOP/s"), ("bytes", "B/s")):
            if f"{name}_per_second" in run.metrics:
                rate = si(run.metrics[f"{name}_per_second"], unit)
                break
    return run.status, run.case, time, half, duration(forecast.seconds) if forecast else "–", ratio, rate, run.reason


def note_of(summary: Summary, results: Path) -> str:
    """How many rows ended how, and where they are."""
    words = [f"{number} {status}" for status, number in sorted(summary.statuses.items())]
    if summary.known:
        words.append(f"{summary.known} measured before (--fresh measures them again)")
    if summary.left:
        words.append(f"{summary.left} left out for want of time")
    if summary.interrupted:
        words.append("interrupted")
    open_ends = summary.interrupted or summary.left or "unstable" in summary.statuses
    goes_on = "; the next start goes on with the rest" if open_ends else ""
    return f"{', '.join(words) or 'nothing to do'}{goes_on}; results in {results / 'runs'}"
