"""How wrong predictions without any measurement are against published steps and tokens: docs/prediction.md's table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median

import pytest

from tests.predict import published
from tests.predict.published import Case

TABLES: dict[str, tuple[Callable[[], Iterator[Case]], int, float]] = {
    "gpt-fast": (published.gpt_fast, 15, 0.08),
    "llm-foundry a100": (lambda: published.llm_foundry("a100"), 63, 0.12),
    "llm-foundry h100": (lambda: published.llm_foundry("h100"), 24, 0.16),
    "serving": (published.serving, 45, 0.15),
    "simumax": (published.simumax, 11, 0.14),
}
"""Table -> its cases, how many of them, and the median error that is promised."""


@pytest.mark.parametrize("table", TABLES)
def test_the_median_error_is_as_documented(table: str) -> None:
    cases, count, most = TABLES[table]
    found = list(cases())
    assert len(found) == count
    assert median(abs(case.ratio - 1) for case in found) <= most


def test_intervals_hold_most_published_times() -> None:
    every = [case for cases, _, _ in TABLES.values() for case in cases()]
    held = sum(case.predicted.interval.low <= case.measured <= case.predicted.interval.high for case in every)
    assert held >= 0.88 * len(every)
