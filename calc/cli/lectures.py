"""`lectures`: the numbers and claims of the lecture notes, checked."""

from __future__ import annotations

import click

from calc.cli import options
from calc.cli.output import Table, emit
from calc.lectures import CLAIMS


@click.command(short_help="What the lecture notes print, each with a verdict.")
@options.output
def lectures(fmt: str) -> None:
    """Check what the lecture notes print: confirmed, rounded, wrong, or not reproducible here, and why.

    \b
    Example:
      python -m calc lectures
    """
    records = [
        {
            "lecture": claim.lecture,
            "says": claim.says,
            "printed": claim.printed,
            "computed": None if claim.value is None else claim.value(),
            "verdict": claim.verdict,
            "why": claim.why,
        }
        for claim in CLAIMS
    ]
    rows = [
        (str(r["lecture"]), _number(r["printed"]), _number(r["computed"]), r["verdict"], r["says"], r["why"])
        for r in records
    ]
    emit(records, [Table(("lecture", "printed", "computed", "verdict", "the notes say", "why"), rows)], fmt)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value == int(value) and value < 1e7 else f"{value:.4g}"
