"""Servers that others measured, beside what constants predict that did not see their systems."""

from __future__ import annotations

from functools import cache

from calc.errors import Refused
from calc.spec import ModelSpec
from harness.serving.fitting import fitted_systems
from harness.serving.refitting import served_model
from harness.serving.rows import ServedRow, inferencemax
from harness.serving.scoring import Scored, Told, folds, judged
from tests.reference import folder


@cache
def spec_of(family: str) -> ModelSpec:
    """The model of a row, its config among the reference data."""
    return served_model(family, [folder() / "truth" / "configs"])


@cache
def inferencemax_rows() -> tuple[list[ServedRow], int]:
    """The rows that say enough to be expressed, and how many do not."""
    found = list(inferencemax(folder() / "measured" / "inference" / "inferencemax.csv"))
    rows = [row for row in found if isinstance(row, ServedRow)]
    return rows, len(found) - len(rows)


@cache
def inferencemax_judged() -> tuple[list[Scored], int]:
    """Every row by constants that did not see its system, and how many rows cannot be expressed or do not fit."""
    rows, lost = inferencemax_rows()
    listed, found = fitted_systems("inferencemax"), []
    by = {name: Told(given) for name, given in folds().items()}
    for row in rows:
        try:
            each = judged(row, spec_of(row.family), listed, by)
        except Refused:
            lost += 1
            continue
        lost += each.tpot is None
        found.append(each)
    return found, lost
