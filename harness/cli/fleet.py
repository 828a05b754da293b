"""`fleet`: a suite on every device of a Ray cluster."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from calc.output.tables import Table, emit
from calc.reading.numbers import Number
from calc.workers.ray_cluster import connected
from harness.cli.run import note_of, short_row
from harness.fleet.devices import holds
from harness.fleet.fleet import PATIENCE, Fleet, Plan
from harness.running.runner import TIMEOUT, Summary
from harness.store import RESULTS
from harness.suites import SUITES


@click.command(short_help="Measure a suite on every device of a Ray cluster.")
@click.option("--ray", "address", metavar="ADDRESS", required=True, help="Of the cluster's head, or auto.")
@click.option("--suite", type=click.Choice(list(SUITES)), default="quick", show_default=True, help="Which cases.")
@click.option(
    "--case", "pattern", metavar="PATTERN", help="Only cases whose id holds this; * and ? stand for anything."
)
@click.option("--type", "wanted", metavar="TYPE", help="Only devices of this type, as Ray names it: H100.")
@click.option("--fresh", is_flag=True, help="Measure again what has been measured on this commit.")
@click.option(
    "--results", type=click.Path(path_type=Path), default=RESULTS, show_default=True, help="Where results go, here."
)
@click.option("--timeout", type=Number(1, 86400), default=TIMEOUT, show_default=True, help="Seconds of a case at most.")
@click.option(
    "--patience",
    type=Number(0, 86400),
    default=PATIENCE,
    show_default=True,
    help="For a lost device.",
)
@click.option("--json", "fmt", flag_value="json", default="table", help="One object a case and line.")
def fleet(
    address: str,
    suite: str,
    pattern: str | None,
    wanted: str | None,
    fresh: bool,
    results: Path,
    timeout: float,
    patience: float,
    fmt: str,
) -> int:
    """Measure the cases of a suite once for every kind of device of a cluster, each predicted first. An actor holds a
    GPU, or all cores of a node without one, alone; devices of one name share their cases. Rows are written here, by
    this process; a second start goes on where the first one ended. Needs the extra `cluster` on every node.

    Exit status: 0 done, 1 a case failed or a device was lost or unfit, 2 refused, 130 interrupted.

    \b
    Examples:
      python -m harness fleet --ray auto
      python -m harness fleet --ray 10.0.0.1:6379 --suite kernels --type H100
    """
    plan = Plan(suite, results, pattern, fresh, timeout, patience=patience)
    with connected(address) as ray:
        found = holds(ray.nodes(), wanted)
        head = Fleet(ray, plan, found, lambda text: click.echo(text, err=True))
        summary = head.run()
    emit([short_row(row) for row in summary.rows], [_table(summary, suite, results)], fmt)
    return summary.exit_status or int(summary.left > 0 or bool(head.unfit))


def _table(summary: Summary, suite: str, results: Path) -> Table:
    """A row a kind of device: how its cases ended."""
    of: dict[str, Counter[str]] = {}
    for run in summary.rows:
        of.setdefault(run.environment.slug, Counter())[run.status] += 1
    statuses = sorted({status for counts in of.values() for status in counts})
    rows = [(slug, *(f"{counts[status]:,}" for status in statuses)) for slug, counts in sorted(of.items())]
    return Table(("device", *statuses), rows, f"suite {suite}", note_of(summary, results))
