"""How wrong predictions without any measurement are against published tokens: docs/prediction-measured.md's table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median

import pytest

from tests.reference import ROOT
from tests.time import published
from tests.time.published import Case

TABLES: dict[str, tuple[Callable[[], Iterator[Case]], float]] = {
    "gpt-fast": (published.gpt_fast, 0.08),
    "Llama 3.1 70B fp8": (published.serving, 0.15),
}
"""How a row of the table begins -> its cases, and the median error that is promised."""


@pytest.mark.parametrize("table", TABLES)
def test_errors_are_as_documented(table: str) -> None:
    """Cases, median error, median of measured / predicted, worst error, and how many lay in the interval; errors are
    shares of the measured times."""
    cases, most = TABLES[table]
    found = list(cases())
    ratios = [case.ratio for case in found]
    errors = [abs(1 / ratio - 1) for ratio in ratios]
    inside = sum(map(held, found)) / len(found)
    figures = (f"{median(errors):.0%}", f"{median(ratios):.2f}", f"{max(errors):.0%}", f"{inside:.0%}")
    assert documented(table) == [str(len(found)), *(figure.replace("%", " %") for figure in figures)]
    assert median(errors) <= most


def test_intervals_hold_most_published_times() -> None:
    every = [case for cases, _ in TABLES.values() for case in cases()]
    assert sum(map(held, every)) >= 0.85 * len(every)


def held(case: Case) -> bool:
    return case.predicted.interval.low <= case.measured <= case.predicted.interval.high


def documented(table: str) -> list[str]:
    """The figures of the row of docs/prediction-measured.md that begins so."""
    page = (ROOT / "docs" / "prediction-measured.md").read_text()
    (row,) = (line for line in page.splitlines() if line.startswith(f"| {table}"))
    return [cell.strip() for cell in row.strip("|").split("|")][2:]
