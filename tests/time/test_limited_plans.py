"""Columns of plans for models that only some plans divide: each row is what one plan alone gives, or nan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calc
from calc.errors import Refused
from calc.memory.totals import memory_ranks
from calc.time import predict, step_times
from calc.time.step.timed_run import timed_run

LIMITED = ("zamba2-2.7b", "rwkv7-1.5b", "falcon-h1-7b", "kimi-linear-48b", "transformer-base")
"""Blocks that layers share, mixers that nothing divides, mixers beside each other, towers."""
DEGREE = st.sampled_from([1, 1, 2, 4])


def _alone(name: str, **plan: Any) -> float:
    try:
        return predict(calc.load_model(name), "h100-sxm", phase="training", seq=128, **plan).seconds
    except Refused:
        return float("nan")


def _peak(name: str, **plan: Any) -> float:
    spec = calc.load_model(name)
    try:
        ranks = memory_ranks(spec, timed_run(spec, phase="training", seq=128, **plan))
    except Refused:
        return float("nan")
    return float(max(rank.peak for rank in ranks))


@pytest.mark.parametrize("name", LIMITED)
def test_ranks_that_divide_nothing_leave_the_others_their_times(name: str) -> None:
    found = step_times(calc.load_model(name), "h100-sxm", phase="training", seq=128, dp=[1, 2, 4], tp=[1, 1, 1])
    assert found.seconds == pytest.approx([_alone(name, dp=dp) for dp in (1, 2, 4)])
    assert found.peak is not None
    assert np.isfinite(found.peak).all()


@settings(max_examples=15, deadline=None)
@given(name=st.sampled_from(LIMITED), plans=st.lists(st.tuples(DEGREE, DEGREE, DEGREE), min_size=2, max_size=3))
def test_a_row_is_nan_exactly_where_its_plan_alone_is_refused(name: str, plans: list[tuple[int, int, int]]) -> None:
    dp, tp, pp = (list(column) for column in zip(*plans, strict=True))
    found = step_times(calc.load_model(name), "h100-sxm", phase="training", seq=128, dp=dp, tp=tp, pp=pp)
    alone = [_alone(name, dp=one, tp=two, pp=three) for one, two, three in plans]
    np.testing.assert_allclose(found.seconds, alone, rtol=1e-9)
    # Memory is told of plans whose ranks nothing is known to link, too.
    peaks = [_peak(name, dp=one, tp=two, pp=three) for one, two, three in plans]
    np.testing.assert_allclose(found.peak, peaks, rtol=1e-9)
