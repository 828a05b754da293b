"""`profile`: measure this machine's speed, for predictions."""

from __future__ import annotations

import math
import os
from pathlib import Path
from statistics import fmean

import click

from calc.errors import Refused
from calc.output.tables import Table, emit
from calc.reading.numbers import Number
from calc.time.device.profile import Profile, read_profile
from harness.progress import TimeLeft
from harness.store import RESULTS

MOST_ERROR = 0.5
"""Of the mean error of a kind of kernel: above it, the times are noise."""
MUCH_WORSE = 2.0
"""Times the mean error of the profile that is there: a new one that is further off does not take its place."""


@click.command(short_help="Measure this machine's speed in a few minutes, for predictions.")
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, show_default=True, help="Folder.")
@click.option("--device", type=click.Choice(["cuda", "cpu"]), help="[default: CUDA where it is]")
@click.option(
    "--time",
    "seconds",
    type=Number(1, 3600),
    help="Seconds it may take. [default: 240 on a GPU, 120 on a CPU]",
)
@click.option("--dtypes", metavar="FORMAT,…", help="Of fp32, bf16, fp16. [default: bf16,fp32 on a GPU, fp32,bf16 else]")
@click.option("--threads", type=click.IntRange(1, 1024), help="Of a CPU. [default: as many as torch takes]")
@click.option("--json", "fmt", flag_value="json", default="table", help="One object.")
def profile(
    results: Path, device: str | None, seconds: float | None, dtypes: str | None, threads: int | None, fmt: str
) -> int:
    """Measure matrix products (at most 300), passes over memory, attention and what launching costs, fit models of time
    to them, and write results/profiles/DEVICE.json with their cross-validated errors.

    Points are gone through in up to three rounds, in another order each, so that a slow minute biases none of them. On
    Linux CPUs freed memory is kept, as the harness does wherever it measures. Exit status: 1 where times moved too much
    to be fitted. A profile that is there stays where that happens and it fits better, or where it is off by less than
    half as much on average; then too the exit status is 1.

    \b
    Examples:
      python -m harness profile
      python -m harness profile --time 30 --dtypes fp32 --threads 2
    """
    from harness.profiling.profiler import measure_profile, write_profile

    _check(results)
    progress = TimeLeft("profile")
    try:
        found = measure_profile(device, dtypes.split(",") if dtypes else (), seconds, threads, progress)  # pyright: ignore[reportArgumentType]
    finally:
        progress.close()
    there = results / "profiles" / f"{found.name}.json"
    old = read_profile(there) if there.exists() else None
    _worth_keeping(found, old)
    unsure = unreliable(found)
    if unsure:
        click.echo(f"note: {unsure}", err=True)
    if old is not None and mean_error(found) > mean_error(old) * (1 if unsure else MUCH_WORSE):
        click.echo(
            f"error: the profile that is there, {there}, fits better ({mean_error(old):.1%} off on average, this one "
            f"{mean_error(found):.1%}) and stays",
            err=True,
        )
        return 1
    path = write_profile(found, results)
    emit([_record(found, path)], _tables(found, path), fmt)
    return int(bool(unsure))


def _check(results: Path) -> None:
    """Errors: Refused where no folder can be, before minutes are spent."""
    if results.exists() and not results.is_dir():
        raise Refused("--results", "a folder", f"a file at {results}")


def unreliable(found: Profile) -> str:
    """What to say of times that no model comes near; nothing where models do."""
    name, fit = max(found.fits.items(), key=lambda item: item[1].mape, default=("", None))
    if fit is None or fit.mape <= MOST_ERROR:
        return ""
    return (
        f"{name} is off by {fit.mape:.0%} on average: times moved too much for a model, as where other programs have "
        f"the machine (load {os.getloadavg()[0]:.1f}); measure again when it has nothing else to do"
    )


def mean_error(found: Profile) -> float:
    """The mean of all fits' mean errors."""
    return fmean(fit.mape for fit in found.fits.values()) if found.fits else math.inf


def _worth_keeping(found: Profile, old: Profile | None) -> None:
    """Errors: Refused where it would take the place of one that knows more."""
    missing = [part for part in ("gemm", "attention", "decode") if not getattr(found, part)]
    if missing and old is not None:
        raise Refused("--time", f"enough to measure {', '.join(missing)} too (the profile that is there stays)", "less")


def _record(found: Profile, path: Path) -> dict[str, object]:
    fits = {name: fit.model_dump() for name, fit in found.fits.items()}
    return {"profile": str(path), "device": found.device, "environment": found.environment, "fits": fits}


def _tables(found: Profile, path: Path) -> list[Table]:
    rows = [
        (name, f"{fit.points:,}", f"{fit.mape:.1%}", f"{fit.median_ape:.1%}", f"{fit.worst:.0%}")
        for name, fit in found.fits.items()
    ]
    peaks = [
        (f"fastest product, {dtype}", f"{rate / 1e9:,.1f} GFLOP/s") for dtype, rate in found.environment["peak"].items()
    ]
    copies = {dtype: table["copy"].knots for dtype, table in found.passes.items() if "copy" in table}
    peaks += [
        (f"largest copy, {dtype}", f"{knots[-1][0] / knots[-1][1] / 1e9:,.1f} GB/s") for dtype, knots in copies.items()
    ]
    failed = found.environment["failed"]
    note = f"written to {path}" + (
        f"; {len(failed)} points could not be measured (see its environment)" if failed else ""
    )
    columns = ("fitted", "points", "MAPE", "median", "worst")
    return [Table(("", ""), peaks, found.device), Table(columns, rows, "cross-validated error", note)]
