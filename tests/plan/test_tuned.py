"""The documents' table of plans that their authors tuned is what a search says of them."""

from __future__ import annotations

import math
import re
from statistics import median

import pytest

from tests.plan.tuned import Tuned, tuned, tuned_rows
from tests.reference import ROOT

WITHIN = 0.15
DOCUMENT = ROOT / "docs" / "plans.md"


def told(source: str) -> tuple[int, int, int, float]:
    """(rows, in the space and fit, within 15 %, median gap in percent) of a source in the documents."""
    match = re.search(rf"^\| {source} \| (\d+) \| (\d+) \| (\d+) \| ([\d.]+) % \|", DOCUMENT.read_text(), re.MULTILINE)
    assert match, source
    return int(match[1]), int(match[2]), int(match[3]), float(match[4])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("source", ["MLPerf", "Megatron-Bridge", "Llama 3 405B"])
def test_the_table_of_tuned_plans(source: str) -> None:
    rows = [row for row in tuned_rows() if row.source == source]
    if not rows:
        pytest.skip("the reference data is not here")
    found = [tuned(row) for row in rows]
    fit = [each for each in found if each.own is not None]
    gaps = [each.gap for each in fit]
    within = sum(gap <= WITHIN for gap in gaps)
    middle = 100 * median(gaps) if gaps else 0.0
    assert (len(rows), len(fit), within) == told(source)[:3], [(each.row.name, each.gap) for each in found]
    assert middle == pytest.approx(told(source)[3], abs=0.11)
    assert all(better(each) >= -1e-9 for each in fit)


def better(each: Tuned) -> float:
    """By how much the best found is faster than the published plan, which is in the space."""
    return math.inf if math.isnan(each.gap) else each.gap
