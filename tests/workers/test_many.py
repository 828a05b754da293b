"""A million plans, searched by two processes and by one; and the head's work for a thousand million."""

from __future__ import annotations

import resource

import pytest

from calc.plan.search import search
from calc.workers.workers import Workers
from tests.benchmarks.many import TOP, imagined, merged, question
from tests.workers.test_same_answers import seen_equal

pytestmark = pytest.mark.slow


def test_a_million_plans() -> None:
    asked = question(1_700_000)
    two = search(asked, TOP, workers=Workers(2))
    assert two.plans > 10**6
    assert two.timed > 10_000
    assert seen_equal(two, search(asked, TOP))


def test_the_head_of_a_thousand_million_rows_holds_no_more_than_that_of_a_million() -> None:
    """All parts come in one after the other, without the work behind them."""
    asked = question(100_000)
    few = merged(asked, Workers().results(imagined(asked, 10**6)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    many = merged(asked, Workers().results(imagined(asked, 10**9)))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert many.plans > 900 * few.plans > 0
    assert grown < 20 * 1024  # KiB
