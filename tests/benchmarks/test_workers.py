"""What processes and Ray gain and cost: ten million plans, chunks of a second, the head of a thousand million rows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from calc.plan.search import search
from calc.time.step import one_pass
from calc.workers.workers import Workers
from tests.benchmarks.many import TOP, imagined, merged, question
from tests.workers.cluster import cluster
from tests.workers.work import job

pytestmark = pytest.mark.slow


@pytest.mark.benchmark(group="ten million plans: two processes are to be 1.7 times as fast as one")
@pytest.mark.parametrize("count", [1, 2])
def test_ten_million_plans(benchmark: Any, count: int) -> None:
    asked = question(17_000_000)
    one_pass._KNOWN.clear()
    found = benchmark.pedantic(search, (asked, TOP), {"workers": Workers(count)}, rounds=1)
    benchmark.extra_info["plans"] = found.plans
    assert found.plans > 10**7


@pytest.mark.benchmark(group="24 chunks of a second that wait: what is beyond 12 s on two cores is Ray's and ours")
@pytest.mark.parametrize("who", ["processes", "ray"])
def test_chunks_of_a_second(benchmark: Any, who: str, tmp_path: Path) -> None:
    if who == "processes":
        workers = Workers(2)
        benchmark.pedantic(lambda: list(workers.results(job(tmp_path / "log", 1.0))), rounds=1)
        return
    with cluster(1, 1) as nodes:
        workers = Workers(ray=nodes.address)
        begin = time.perf_counter()
        benchmark.pedantic(lambda: list(workers.results(job(tmp_path / "log", 1.0))), rounds=1)
        benchmark.extra_info["overhead"] = (time.perf_counter() - begin) / 12 - 1


@pytest.mark.benchmark(group="the head of a search of a thousand million rows, without the work behind it")
def test_the_head_alone(benchmark: Any) -> None:
    asked = question(1_000_000)
    job = imagined(asked, 10**9)
    found = benchmark.pedantic(lambda: merged(asked, Workers().results(job)), rounds=1)
    benchmark.extra_info |= {"parts": job.count, "plans": found.plans}
