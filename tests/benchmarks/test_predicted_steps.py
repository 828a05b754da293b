"""How fast a predicted step is: a slider of the dashboard waits for it."""

from __future__ import annotations

from typing import Any

import pytest

import calc
from calc.predict import predict

pytestmark = pytest.mark.slow


@pytest.mark.benchmark(group="a prediction of Llama 3 70B is to take at most 50 ms")
@pytest.mark.parametrize("gpu", ["h100-sxm", "a100-sxm-80gb"])
@pytest.mark.parametrize("phase", ["decode", "training"])
def test_prediction(benchmark: Any, gpu: str, phase: Any) -> None:
    spec = calc.load_model("llama-3-70b")
    found = benchmark(predict, spec, gpu, phase=phase, seq=8192, context=8191, execution="compiled")
    assert found.seconds > 0


@pytest.mark.benchmark(group="a prediction under a plan of four kinds of parallelism is to take at most 100 ms")
def test_prediction_of_a_plan(benchmark: Any) -> None:
    spec = calc.load_model("llama-3-70b")
    plan = {"dp": 2, "tp": 4, "pp": 8, "zero": 1, "micro_batches": 32}
    found = benchmark(predict, spec, "h100-sxm", phase="training", seq=8192, **plan, network=50e9)
    assert found.by_component["network"] > 0
