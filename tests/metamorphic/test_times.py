"""What must hold between two times, whatever the model and the plan: more work takes longer, faster devices do not."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from calc.errors import Refused
from calc.spec import ModelSpec
from calc.time import Prediction, predict, roofline, step_times
from tests.strategies import latent, specs
from tests.time.toys import toy

FEW = settings(
    max_examples=5,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.filter_too_much],
)
GPUS = ("h100-sxm", "a100-sxm-80gb", "l4")
EXECUTIONS = st.sampled_from(["sdpa", "compiled", "graph"])


def timed(spec: ModelSpec, gpu: Any = "h100-sxm", **words: Any) -> Prediction:
    """A prediction; a case of which no time is told is none."""
    try:
        return predict(spec, gpu, **words)
    except Refused:
        assume(False)
        raise


@FEW
@given(specs(), st.integers(1, 4000), st.integers(1, 4000), EXECUTIONS)
def test_a_token_takes_longer_behind_more_tokens(spec: ModelSpec, context: int, more: int, execution: str) -> None:
    """By a datasheet: what was measured of a kernel has steps of tiles."""
    words = {"phase": "decode", "execution": execution, "batch": 4}
    short, long = (timed(spec, "mi300x", context=n, **words) for n in (context, context + more))
    assert short.seconds <= long.seconds * (1 + 1e-9)


@FEW
@given(specs(), st.sampled_from(["prefill", "training"]), st.integers(1, 4), EXECUTIONS)
def test_times_rise_with_the_batch(spec: ModelSpec, phase: Any, batch: int, execution: str) -> None:
    words = {"phase": phase, "execution": execution, "seq": 64, "context": 64}
    device = toy(1e12, 1e10)
    few, many = (timed(spec, device, batch=n, **words) for n in (batch, 2 * batch))
    assert few.seconds <= many.seconds * (1 + 1e-9)
    assert many.seconds <= 2 * few.seconds * (1 + 1e-9)


@FEW
@given(specs(), st.sampled_from(["prefill", "training"]), st.sampled_from([1.0, 2.0, 7.0]))
def test_a_faster_device_is_not_slower(spec: ModelSpec, phase: Any, factor: float) -> None:
    words = {"phase": phase, "seq": 64, "context": 64, "batch": 3}
    slow, quick = (
        timed(spec, toy(rate, bandwidth), **words) for rate, bandwidth in ((1e12, 1e10), (factor * 1e12, factor * 1e10))
    )
    assert quick.seconds == pytest.approx(slow.seconds / factor, rel=1e-6)


@FEW
@given(
    specs() | specs(latent),
    st.sampled_from(["prefill", "training", "forward"]),
    st.sampled_from(GPUS),
    st.integers(1, 3000),
)
def test_no_device_does_more_than_it_can(spec: ModelSpec, phase: Any, gpu: str, seq: int) -> None:
    found = timed(spec, gpu, phase=phase, seq=seq, batch=2, execution="compiled")
    assert found.interval.low <= found.seconds <= found.interval.high
    if found.mfu_between is not None:
        assert found.mfu_between[1] <= 1 + 1e-9


@FEW
@given(specs(), st.sampled_from([1, 2, 3]), st.integers(1, 8), st.integers(0, 3000))
def test_ranks_read_all_keys_between_them(spec: ModelSpec, tp: int, batch: int, context: int) -> None:
    """A rank's core reads no less than its share, and all ranks no less than there is: lines of heads are shared."""
    words = {"phase": "decode", "batch": batch, "context": context, "execution": "sdpa"}
    whole, part = (timed(spec, tp=n, **words) for n in (1, tp))

    def read(found: Prediction) -> float:
        return sum(point.bytes for point in roofline(found) if point.function == "attention")

    assert read(part) <= read(whole) * (1 + 1e-9)
    assert read(part) * tp >= read(whole) * (1 - 1e-9)


@FEW
@given(specs(), st.sampled_from(["prefill", "training", "decode"]), st.integers(1, 60), st.integers(0, 400))
def test_what_is_timed_fits_if_memory_says_so_and_a_larger_batch_takes_no_less(
    spec: ModelSpec, phase: Any, batch: int, length: int
) -> None:
    words = {"phase": phase, "seq": length + 1, "context": length}
    few, many = (timed(spec, batch=n, **words).memory for n in (batch, batch + 1))
    assert few.peak is not None
    assert many.peak is not None
    assert few.held <= few.peak
    assert few.peak <= many.peak
    assert few.fits is (few.peak <= (few.budget or math.inf))


@settings(max_examples=5, deadline=None)
@given(specs(), st.lists(st.sampled_from([1, 2, 3]), min_size=2, max_size=4), st.sampled_from(["prefill", "decode"]))
def test_a_column_of_plans_is_its_points(spec: ModelSpec, batches: list[int], phase: Any) -> None:
    try:
        found = step_times(spec, "h100-sxm", phase=phase, batch=batches, seq=64, context=64)
    except Refused:
        assume(False)
        raise
    for row, batch in enumerate(batches):
        alone = predict(spec, "h100-sxm", phase=phase, batch=batch, seq=64, context=64)
        assert found.seconds[row] == pytest.approx(alone.seconds, rel=1e-12)
        assert found.peak is not None
        assert found.peak[row] == alone.memory.peak
