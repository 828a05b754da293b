"""The documents' table of plans that their authors tuned is what a search says of them."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from statistics import median

import pytest

from calc.architectures.models import load_model
from calc.plan.planning import answer
from calc.plan.question import Question
from calc.spec.clusters import load_cluster
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


def test_the_plan_that_trained_deepseek_v3() -> None:
    """arXiv:2412.19437, section 3.2 and 4.2: 16 stages under DualPipe, experts over 64 ranks, ZeRO-1, 15,360 sequences
    of 4,096 tokens on 2,048 H800; as large a micro-batch as a token of each stage at a time."""
    words = {"stack": "hai-llm", "mtp": True}
    most, own = {"batch": 8, "cp": 4}, {"pp": 16, "ep": 64, "zero": 1, "batch": 1, "cp": 1, "schedule": "dualpipe"}
    spec, cluster = load_model("deepseek-v3"), load_cluster("h800")
    asked = Question(spec, cluster, (2048,), 4096, 15360, ("fp8",), at_most=most, words=words)
    best, published = (answer([each], top=1).plans[0] for each in (asked, replace(asked, fixed=own)))
    assert 0 <= published.seconds / best.seconds - 1 <= WITHIN
    line = f"{published.seconds:.1f} s a step, the best found {best.seconds:.1f} s"
    assert line in " ".join(DOCUMENT.read_text().split()), line


def better(each: Tuned) -> float:
    """By how much the best found is faster than the published plan, which is in the space."""
    return math.inf if math.isnan(each.gap) else each.gap
