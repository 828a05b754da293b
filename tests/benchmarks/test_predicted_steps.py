"""How fast a predicted step is: a slider of the dashboard waits for it."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import calc
from calc.time import predict, step_times
from calc.time.schedule.levels import levels
from calc.time.schedule.stage_times import StageTimes
from calc.time.schedule.timeline import timeline

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


def _plans(n: int) -> dict[str, numpy.ndarray]:
    """Plans of Llama 3 70B that divide it."""
    random = numpy.random.default_rng(0)
    return {
        "batch": random.choice([1, 2, 4], n),
        "dp": 2 ** random.integers(0, 8, n),
        "tp": 2 ** random.integers(0, 4, n),
        "pp": random.choice([1, 2, 4, 5, 8, 10, 16, 20, 40], n),
        "cp": random.choice([1, 2], n),
        "zero": random.integers(0, 4, n),
        "micro_batches": 2 ** random.integers(0, 9, n),
    }


@pytest.mark.benchmark(group="plans of Llama 3 70B one by one: at least 1,000 are to take a second", min_rounds=2)
def test_a_thousand_plans_one_by_one(benchmark: Any) -> None:
    spec, columns = calc.load_model("llama-3-70b"), _plans(1000)
    every = [{name: int(column[i]) for name, column in columns.items()} for i in range(1000)]

    def search() -> float:
        words: Any = {"phase": "training", "seq": 8192, "network": 50e9}
        return min(
            found.seconds / found.tokens for found in (predict(spec, "h100-sxm", **plan | words) for plan in every)
        )

    assert benchmark(search) > 0


@pytest.mark.benchmark(group="a timeline of 64 stages and 512 micro-batches is to take at most 50 ms")
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_timeline(benchmark: Any, schedule: str) -> None:
    stages = [StageTimes(1.0 + 0.01 * i, 2.0, send=0.1) for i in range(64)]

    def drawn() -> float:
        levels.cache_clear()
        return timeline(stages, 512, schedule).seconds

    assert benchmark(drawn) > 64 * 3


@pytest.mark.benchmark(group="plans of Llama 3 70B in columns: 100,000 are to take a second", min_rounds=2)
@pytest.mark.parametrize("memory", [False, True], ids=["time", "time and memory"])
@pytest.mark.parametrize(
    "links",
    [{"network": 50e9}, {"cluster": "dgx-h100", "stack": "megatron-core"}],
    ids=["network", "cluster and stack"],
)
def test_a_hundred_thousand_plans(benchmark: Any, memory: bool, links: dict[str, Any]) -> None:
    spec, columns = calc.load_model("llama-3-70b"), _plans(100_000)
    if "stack" in links:  # whose pipelines divide neither gradients nor weights
        columns["zero"] = numpy.where(columns["pp"] > 1, columns["zero"] % 2, columns["zero"])
    words: Any = {"phase": "training", "seq": 8192, "memory": memory} | links
    found = benchmark(step_times, spec, "h100-sxm", **columns | words)
    assert numpy.isfinite(found.seconds).all()
