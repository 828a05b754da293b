"""How fast the harness's cases are: one of every kind that runs in this process, each checked before it is timed."""

from __future__ import annotations

from typing import Any

import pytest

from harness.cases import Case
from harness.cases.lists import quick
from harness.measuring.clocks import Clock, choose, make_clock
from tests.benchmarks.conftest import environment
from tests.benchmarks.handing_in import hand_in

SAMPLES = 30


@pytest.mark.parametrize("case", quick(environment()), ids=lambda case: case.id)
def test_case(benchmark: Any, case: Case) -> None:
    benchmark.group = case.kind
    benchmark.extra_info |= {name: float(value) for name, value in case.counts().items()}
    device = environment().device
    ready = case.ready(device)
    try:
        if ready.check is not None:
            assert ready.check() <= ready.tolerance
        if device == "cpu":
            benchmark.pedantic(ready.run, setup=ready.rotate, rounds=SAMPLES, warmup_rounds=3)
            return
        clock: Clock = make_clock(case.clock or choose(ready, device, case.step, case.cache), ready, device, case.cache)
        clock.set_batch(min(clock.take(3)), 0.0)
        clock.take(3)
        hand_in(benchmark, clock.take(SAMPLES))
    finally:
        if ready.close is not None:
            ready.close()
