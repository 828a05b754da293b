"""Options that several commands have: those that choose among results, and what is measured on."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, get_args

import click

from calc.errors import Refused
from calc.spec.fields import DeviceKind
from harness.record import Run
from harness.store import RESULTS, scan

SHOWN_FAULTS = 5
"""Bad lines that are named one by one."""

results = click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=RESULTS,
    show_default=True,
    help="Folder of results.",
)

measured_on = click.option(
    "--device", type=click.Choice(get_args(DeviceKind)), help="Where. [default: cuda where there is one]"
)


def selection(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--results` and options that choose among the runs in it, passed on as `runs: list[Run]`, and as `results`."""

    @results
    @click.option("--device", help="Only this device, as `runs/` calls it, or the beginning of one.")
    @click.option("--suite", help="Only runs of this suite.")
    @click.option("--commit", help="Only runs of this commit, or the beginning of one.")
    @click.option("--model", help="Only cases of this model.")
    @click.option("--backend", help="Only cases of this attention backend.")
    @wraps(function)
    def chosen(
        results: Path,
        device: str | None,
        suite: str | None,
        commit: str | None,
        model: str | None,
        backend: str | None,
        **rest: Any,
    ) -> Any:
        found = [run for run in load(results) if fits(run, device, suite, commit, model, backend)]
        return function(runs=found, results=results, **rest)

    return chosen


def load(results: Path) -> list[Run]:
    """All runs under a folder; lines that are none are named on stderr and passed over.

    Errors: Refused for what is not a folder.
    """
    if results.exists() and not results.is_dir():
        raise Refused("--results", "a folder", f"a file at {results}")
    runs, faults = scan(results)
    for fault in faults[:SHOWN_FAULTS]:
        click.echo(f"note: passed over {fault}", err=True)
    if len(faults) > SHOWN_FAULTS:
        click.echo(f"note: passed over {len(faults) - SHOWN_FAULTS:,} more lines", err=True)
    return runs


def fits(
    run: Run,
    device: str | None = None,
    suite: str | None = None,
    commit: str | None = None,
    model: str | None = None,
    backend: str | None = None,
) -> bool:
    """Whether a run is one of those asked for. device, commit: or the beginning of one; None: any."""
    environment = run.environment
    return (
        (device is None or environment.slug.startswith(device))
        and (suite is None or run.suite == suite)
        and (commit is None or (environment.commit or "").startswith(commit))
        and (model is None or run.params.get("model") == model)
        and (backend is None or run.params.get("backend") == backend)
    )


def nothing(results: Path) -> str:
    """What to say where there is nothing to show."""
    where = "" if results == RESULTS else f" --results {results}"
    return (
        f"nothing to compare under {results}: `python -m harness profile{where}` and then "
        f"`python -m harness run --suite quick{where}` predict and measure"
    )
