"""What processes and Ray gain and cost: ten million plans, chunks of a second, the head of a thousand million rows."""

from __future__ import annotations

import resource
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calc.plan.search import search
from calc.time.step import one_pass
from calc.workers.job import Part
from calc.workers.workers import Workers
from tests.benchmarks.many import TOP, imagined, merged, question
from tests.workers.cluster import cluster
from tests.workers.work import CHUNKS, job, ran, same

pytestmark = pytest.mark.slow


def cores() -> tuple[float, float]:
    """Seconds of cores that this process has had, and its children that have ended."""
    return tuple(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))  # type: ignore


@pytest.mark.benchmark(group="ten million plans: two processes are to be 1.7 times as fast as one")
@pytest.mark.parametrize("count", [1, 2])
def test_ten_million_plans(benchmark: Any, count: int) -> None:
    # Nobody reads times among other tests: a hundredth of it is asked for there.
    few = benchmark.disabled
    asked = question(170_000 if few else 17_000_000)
    one_pass.forget()
    before = cores()
    found = benchmark.pedantic(search, (asked, TOP), {"workers": Workers(count)}, rounds=1)
    # Where others have the cores too, seconds of them tell what waiting hides: the head's and the processes' share.
    head, processes = (after - begin for after, begin in zip(cores(), before, strict=True))
    benchmark.extra_info |= {"plans": found.plans, "head, seconds of a core": head, "processes": processes}
    print(f"{count}: {found.plans:,} plans, {head:.1f} s of the head's core, {processes:.1f} s of processes'")
    assert found.plans > (10**5 if few else 10**7)


@pytest.mark.benchmark(group="24 chunks of a second that wait: what is beyond 12 s on two cores is theirs and ours")
@pytest.mark.parametrize("who", ["processes", "ray"])
def test_chunks_of_a_second(benchmark: Any, who: str, tmp_path: Path) -> None:
    """The start of workers once, and what is lost from chunk to chunk, which is to be at most a tenth; what they give
    is what one process gives, each chunk run once."""
    with cluster(1, 1) if who == "ray" else nullcontext() as nodes:
        workers = Workers(2) if nodes is None else Workers(ray=nodes.address)
        times, found = benchmark.pedantic(arrivals, (workers, tmp_path / "many"), rounds=1)
    assert [ran(tmp_path / "many", chunk) for chunk in range(CHUNKS)] == [1] * CHUNKS
    assert same(found, list(Workers().results(job(tmp_path / "alone"))))
    start, rest = times[0] - 1.0, (times[-1] - times[0]) / (CHUNKS / 2 - 1) - 1.0
    benchmark.extra_info |= {"start, seconds": start, "overhead of a chunk": rest}
    print(f"{who}: {start:.1f} s until workers are there, then {rest:.1%} beyond each second")


def arrivals(workers: Workers, folder: Path) -> tuple[list[float], list[tuple[int, Part]]]:
    """Seconds until each chunk is there, and what it gave."""
    begin, times, found = time.perf_counter(), [], []
    for each in workers.results(job(folder, 1.0)):
        times.append(time.perf_counter() - begin)
        found.append(each)
    return times, found


@pytest.mark.benchmark(group="the head of a search of a thousand million rows, without the work behind it")
def test_the_head_alone(benchmark: Any) -> None:
    asked = question(1_000_000)
    job = imagined(asked, 10**8 if benchmark.disabled else 10**9)
    found = benchmark.pedantic(lambda: merged(asked, Workers().results(job)), rounds=1)
    benchmark.extra_info |= {"parts": job.count, "plans": found.plans}
    one = merged(asked, Workers().results(replace(job, chunks=range(1), count=1)))
    assert found.plans == job.count * one.plans > 0
