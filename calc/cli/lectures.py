"""`lectures`: the numbers and claims of the lecture notes, checked."""

from __future__ import annotations

import click

from calc.cli import options
from calc.output.tables import Table, emit
from calc.teaching.claim import written
from calc.teaching.lectures import CLAIMS

_NUMBERS = ("printed", "computed", "recorded")
_NOTE = "recorded: counted with what the product does not ship; calc/data/published/lecture_counts.toml says with what"


@click.command(short_help="What the lecture notes print, each with a verdict.")
@click.option("--trainings", is_flag=True, help="What trainings cost on the hardware of their time, predicted.")
@options.output
def lectures(trainings: bool, fmt: str) -> None:
    """Check what the lecture notes print: confirmed, rounded, wrong, or not reproducible here, and why.

    \b
    Examples:
      python -m calc lectures
      python -m calc lectures --trainings
    """
    if trainings:
        _trainings(fmt)
        return
    records = [
        {
            "lecture": claim.lecture,
            "says": claim.claim,
            "printed": claim.printed,
            "computed": None if claim.value is None else claim.value(),
            "recorded": claim.recorded,
            "verdict": claim.verdict,
            "why": claim.why,
        }
        for claim in CLAIMS
    ]
    rows = [
        (str(r["lecture"]), *(written(r[name]) for name in _NUMBERS), r["verdict"], r["says"], r["why"])
        for r in records
    ]
    emit(
        records,
        [Table(("lecture", *_NUMBERS, "verdict", "the notes say", "why"), rows, "", _NOTE, spare=("recorded",))],
        fmt,
    )


def _trainings(fmt: str) -> None:
    """The Transformers on P100s and the ViTs on TPUs, each printed cost beside what `predict` expects."""
    from calc.teaching.training_costs import training_costs

    found = training_costs()
    rows = [
        (
            one.name,
            one.device,
            one.unit,
            f"{one.printed:,.4g}",
            f"{one.predicted:,.3g}",
            f"{one.low:,.3g} … {one.high:,.3g}",
            f"{one.least:,.3g}",
            one.verdict,
            one.why,
        )
        for one in found
    ]
    columns = ("training", "on", "unit", "printed", "predicted", "between", "at least", "verdict", "why")
    note = "at least: its products at the datasheet's peak"
    emit([one._asdict() for one in found], [Table(columns, rows, "", note, spare=("at least", "between"))], fmt)
