"""`run`: measure a suite of cases on this machine, each predicted first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from calc.errors import Refused
from calc.output.tables import Table, emit
from calc.time.device.profile import Profile
from calc.units import duration, si
from harness.cases.case import Case
from harness.cli.interrupting import terminated_as_interrupted
from harness.cli.ranks import place_for, run_ranks
from harness.cli.scaling import planned, scaling
from harness.profiling.beforehand import profile_first
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
    default="quick",
    show_default=True,
    help="Which cases.",
)
@click.option(
    "--case", "pattern", metavar="PATTERN", help="Only cases whose id holds this; * and ? stand for anything."
)
@click.option("--sizes", metavar="WIDTHxLAYERS,…", help="scaling: its models, such as 16x1,32x2,64x3; widths by 16.")
@click.option("--budgets", metavar="TOKENS,…", help="scaling: training tokens, multiples of 1,280.")
@click.option("--fresh", is_flag=True, help="Measure again what has been measured on this commit.")
@click.option("--device", type=click.Choice(["cuda", "cpu"]), help="Where. [default: cuda where there is one]")
@click.option(
    "--results", type=click.Path(path_type=Path), default=RESULTS, show_default=True, help="Where results go."
)
@click.option("--profile", metavar="FILE", help="What predicts. [default: profiles/DEVICE.json of the results]")
@click.option(
    "--profile-time",
    type=click.FloatRange(1, 3600),
    metavar="SECONDS",
    help="First measure a profile of this machine for so long.",
)
@click.option(
    "--timeout", type=click.FloatRange(1, 86400), default=TIMEOUT, show_default=True, help="Seconds of a case at most."
)
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
    if (place := place_for(suite)) is not None:
        given = {"pattern": pattern, "fresh": fresh, "device": device}
        summary = run_ranks(suite, place, results, cluster, **given)
        if place.first:
            emit([short_row(row) for row in summary.rows], [_table(summary, suite, results)], fmt)
        return summary.exit_status
    if cluster is not None:
        raise Refused("--cluster", f"--suite {' or '.join(RANK_SUITES)} beside it", suite)
    if suite == "scaling":
        with terminated_as_interrupted():
            given = {"case": pattern, "profile": profile, "profile_time": profile_time, "job": job}
            return scaling(results, device, fresh, listed, fmt, planned(sizes, budgets), **given)
    for name, value in (("--sizes", sizes), ("--budgets", budgets)):
        if value is not None:
            raise Refused(name, "--suite scaling beside it", suite)
    observer = JobObserver(job, results) if job else for_stderr()
    with terminated_as_interrupted():
        try:
            if profile_time is not None and not listed:
                profile_first(profile_time, device, results, observer)
            with Worker(device, observer.tick) as worker:  # pyright: ignore[reportArgumentType]
                cases = choose_cases(suite_cases(suite, worker.environment), pattern)
                if listed:
                    _list(cases, suite, fmt)
                    return 0
                speed = find_profile(profile, results, worker.environment)
                if speed is not None and (why := measured_otherwise(speed, worker.environment)):
                    click.echo(f"note: {why}", err=True)
                plan = Plan(cases, suite, results, speed, fresh, timeout, budget(suite, worker.environment))
                summary = sweep(plan, worker, observer)
        except Cancelled:
            observer.end(interrupted=True)
            return 130
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


def _list(cases: list[Case], suite: str, fmt: str) -> None:
    records = [{"case": case.id, "kind": case.kind, "params": case.params} for case in cases]
    title = f"suite {suite}: {len(cases)} cases"
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
