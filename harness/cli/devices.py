"""`devices`: what this machine is, as every result records it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from calc.output.tables import Table, emit
from calc.units import binary
from harness.environment import probe
from harness.measuring.limits import catalogued
from harness.record import Environment
from harness.store import RESULTS

UNITS = {"max_sm_clock": "MHz", "max_memory_clock": "MHz", "power_limit": "W"}


@click.command(short_help="What this machine is: processor, GPU, versions, commit.")
@click.option(
    "--results", type=click.Path(path_type=Path), default=RESULTS, show_default=True, help="Where results are."
)
@click.option("--json", "fmt", flag_value="json", default="table", help="One object a device and line.")
def devices(results: Path, fmt: str) -> None:
    """Print the devices that can be measured here and everything that a time depends on: memory in bytes, clocks in
    MHz, power in W; `catalogue` is the GPU's name there, `profile` the file of its measured speed, if there is one.

    \b
    Example:
      python -m harness devices --json
    """
    found = [probe()]
    if found[0].device == "cuda":
        found.append(probe("cpu"))
    records = [_record(environment, results) for environment in found]
    emit(records, [_table(record) for record in records], fmt)


def _record(environment: Environment, results: Path) -> dict[str, Any]:
    profile = results / "profiles" / f"{environment.slug}.json"
    device = catalogued(environment)
    return environment.model_dump(mode="json") | {
        "catalogue": device.name if device is not None else None,
        "profile": str(profile) if profile.is_file() else None,
    }


def _table(record: dict[str, Any]) -> Table:
    rows = [(name.replace("_", " "), _cell(name, value)) for name, value in record.items() if value is not None]
    hint = "" if record["profile"] else "No profile yet: python -m harness profile measures one."
    return Table(("", ""), rows, record["slug"], hint)


def _cell(name: str, value: Any) -> str:
    if name == "memory":
        return f"{binary(value)} ({value:,} B)"
    return f"{value:,.6g} {UNITS[name]}" if name in UNITS else str(value)
