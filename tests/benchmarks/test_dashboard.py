"""How fast a page is redrawn on the server's side once a knob has moved, for Llama 3 70B, and how soon it is there."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from tests.dashboard.opening import opened, sound

pytestmark = pytest.mark.slow
LENGTHS = (256, 512, 1024, 2048, 4096, 8192)


@pytest.mark.benchmark(group="a moved slider is to redraw within 200 ms (p95)", min_rounds=30, warmup=True)
@pytest.mark.parametrize("shown", ["model", "formula", "memory"])
def test_a_moved_slider(benchmark: Any, shown: str) -> None:
    at = opened(shown, model="llama-3-70b", quantity="flops.training")
    lengths = cycle(LENGTHS)

    def moved() -> AppTest:
        return at.select_slider(key="seq").set_value(next(lengths)).run()

    sound(benchmark(moved))
    times = sorted(benchmark.stats.stats.data) if benchmark.stats else []
    if times:
        benchmark.extra_info["p95"] = times[int(0.95 * (len(times) - 1))]
    assert at.metric


@pytest.mark.benchmark(group="a checkpointed plan is to redraw within 200 ms (p95)", min_rounds=30)
def test_another_plan(benchmark: Any) -> None:
    at = opened("memory", model="llama-3-70b", dp="64", zero="3")
    plans = cycle(["none", "selective", "full"])
    sound(benchmark(lambda: at.selectbox(key="checkpointing").set_value(next(plans)).run()))
    assert at.metric
