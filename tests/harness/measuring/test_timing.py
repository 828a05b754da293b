"""How a time is found: by warming up, by sampling until the median is known, and by saying where it is not."""

from __future__ import annotations

import gc
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import chain, count, cycle, repeat

import numpy as np
import pytest
from scipy.stats import bootstrap

pytest.importorskip("torch")

import torch

from harness.cases.case import Ready
from harness.measuring import timing
from harness.measuring.clocks import SHORTEST, Clock, choose, make_clock
from harness.measuring.inspection import inspect
from harness.measuring.sampling import Queue
from harness.measuring.statistics import median_interval
from harness.measuring.timing import Effort, measure, warm_up

BRIEF = Effort(goal=0.005, limit=0.05, warmup=0.05)


class Scripted(Clock):
    """A clock that shows the times that it was given, per execution."""

    name = "host"

    def __init__(self, times: Iterator[float]) -> None:
        super().__init__(Ready(run=lambda: None), None)
        self.times = times
        self.asked = 0

    def take(self, n: int) -> list[float]:
        self.asked += n
        return [next(self.times) for _ in range(n)]


def test_the_interval_is_the_bootstraps() -> None:
    samples = np.random.default_rng(3).lognormal(0, 0.2, 101)
    found = median_interval(samples.tolist())
    theirs = bootstrap((samples,), np.median, method="percentile", n_resamples=20_000, rng=1).confidence_interval
    assert found.value == np.median(samples)
    # Medians of resamples are samples; the ends may differ by one of them.
    order = np.sort(samples)
    assert abs(np.searchsorted(order, found.low) - np.searchsorted(order, theirs.low)) <= 1
    assert abs(np.searchsorted(order, found.high) - np.searchsorted(order, theirs.high)) <= 1
    assert found == median_interval(samples.tolist())


def test_nine_intervals_in_ten_and_more_hold_the_true_median() -> None:
    draw = np.random.default_rng(5)
    intervals = [median_interval(draw.exponential(1.0, 31).tolist()) for _ in range(300)]
    held = sum(found.low <= math.log(2) <= found.high for found in intervals)
    assert 0.91 <= held / 300 <= 0.99


def test_sampling_ends_once_the_median_is_known() -> None:
    clock = Scripted(chain([5.0] * 2, repeat(1.0)))
    samples, converged = timing._sample(clock, Effort(goal=0.005, limit=60))
    assert converged
    assert len(samples) == timing.LEAST


def test_sampling_ends_unconverged_when_there_are_enough_samples() -> None:
    noise = np.random.default_rng(1)
    clock = Scripted(noise.lognormal(0, 1.0) for _ in count())
    samples, converged = timing._sample(clock, Effort(goal=0.005, limit=60))
    assert not converged
    assert len(samples) == timing.SAMPLES


def test_sampling_ends_unconverged_at_the_time_limit() -> None:
    samples, converged = timing._sample(Scripted(cycle([1.0, 2.0])), Effort(goal=0.005, limit=0.0))
    assert (len(samples), converged) == (3, False)


def test_waiting_for_a_core_is_seen() -> None:
    before = os.sched_getaffinity(0)
    core = {min(before)}
    busy = subprocess.Popen(
        [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {core})\nprint(flush=True)\nwhile True: pass"],
        stdout=subprocess.PIPE,
    )
    assert busy.stdout is not None
    try:
        busy.stdout.readline()
        os.sched_setaffinity(threading.get_native_id(), core)
        with Queue() as crowded:
            end = time.monotonic() + 0.5
            while time.monotonic() < end:
                pass
    finally:
        os.sched_setaffinity(threading.get_native_id(), before)
        busy.kill()
        busy.communicate()
    with Queue() as idle:
        time.sleep(0.3)
    if crowded.share is None:
        pytest.skip("this kernel does not tell how long threads wait")
    assert crowded.share > 0.2
    assert idle.share is not None
    assert 0 <= idle.share < crowded.share


def test_noise_is_given_more_time_before_a_row_is_unstable() -> None:
    def samples(patience: float) -> list[float]:
        noise = np.random.default_rng(1)

        def slow() -> Iterator[float]:
            while True:
                time.sleep(0.001)
                yield noise.lognormal(0, 3.0)

        return timing._sample(Scripted(slow()), Effort(limit=0.05, patience=patience))[0]

    assert len(samples(5.0)) > 2 * len(samples(1.0))


def test_warming_up_goes_on_until_times_are_steady() -> None:
    falling = [2.0 * 0.9**i for i in range(40)]
    clock = Scripted(chain(falling, repeat(falling[-1])))
    warm_up(clock, "cpu", Effort(warmup=0.2))
    assert clock.asked >= 40 + timing.WINDOW


def test_samples_are_long_against_the_clock() -> None:
    clock = Scripted(repeat(1e-6))
    clock.set_batch(1e-6, 0.0)
    assert clock.batch == pytest.approx(SHORTEST / 1e-6, abs=1)
    clock.set_batch(1.0, 0.0)
    assert clock.batch == 1
    clock.set_batch(1e-6, 2e-3)
    assert clock.batch == pytest.approx(2000, abs=1)


def test_a_measurement_has_an_interval_and_a_clock() -> None:
    a = torch.rand(64, 64)
    found = measure(Ready(run=lambda: a @ a), "cpu", BRIEF)
    assert 0 < found.low <= found.seconds <= found.high
    assert found.seconds == np.median(found.samples)
    assert (found.clock, found.cache, found.sample) == ("host", "hot", None)
    assert found.warmup >= 2
    assert 3 <= len(found.samples) <= timing.SAMPLES


def test_garbage_is_not_collected_meanwhile_and_is_again_afterwards() -> None:
    seen: set[bool] = set()
    measure(Ready(run=lambda: seen.add(gc.isenabled())), "cpu", BRIEF)
    assert seen == {False}
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        measure(Ready(run=lambda: 1 / 0), "cpu", BRIEF)
    assert gc.isenabled()


def test_before_each_cold_execution_inputs_change_and_caches_are_overwritten() -> None:
    log: list[str] = []
    ready = Ready(run=lambda: log.append("run"), rotate=lambda: log.append("rotate"))
    clock = make_clock("host", ready, "cpu", "cold")
    assert clock.flush is not None
    clock.flush = lambda: log.append("flush")
    clock.set_batch(1e-9, 1.0)
    clock.take(2)
    assert log == ["rotate", "flush", "run"] * 2


def test_the_flush_writes_more_than_the_caches_of_a_core() -> None:
    flush = make_clock("host", Ready(run=lambda: None), "cpu", "cold").flush
    assert flush is not None
    assert flush().nbytes == 128 * 2**20


def test_hot_executions_follow_each_other() -> None:
    log: list[str] = []
    clock = make_clock("host", Ready(run=lambda: log.append("run")), "cpu", "hot")
    clock.batch = 7
    assert len(clock.take(3)) == 3
    assert log == ["run"] * 21


def test_a_clock_is_chosen_by_what_is_asked() -> None:
    plain, graph = Ready(run=lambda: None), Ready(run=lambda: None, graphable=True)
    rotating = Ready(run=lambda: None, graphable=True, rotate=lambda: None)
    assert choose(graph, "cpu", False, "hot") == "host"
    assert choose(graph, "cuda", True, "hot") == "host"
    assert choose(graph, "cuda", False, "hot") == "cuda-graph"
    assert choose(graph, "cuda", False, "cold") == "cuda-event"
    assert choose(rotating, "cuda", False, "hot") == "cuda-event"
    assert choose(plain, "cuda", False, "hot") == "cuda-event"
    with pytest.raises(NotImplementedError, match="a GPU's"):
        measure(plain, "cpu", BRIEF, clock="cuda-event")


def test_an_effort_fits_into_the_time_there_is() -> None:
    short = timing.STEP.within(3.0)
    assert short.limit + short.warmup == pytest.approx(3.0)
    assert short.goal == timing.STEP.goal
    assert timing.KERNEL.within(100.0).limit == timing.KERNEL.limit


def test_what_ran_is_named_and_its_memory_is_counted_to_the_byte() -> None:
    a = torch.rand(500, 500)

    def two_sums() -> torch.Tensor:
        kept = a + 1
        return kept + 1

    one, two = inspect(Ready(run=lambda: a + 1), "cpu"), inspect(Ready(run=two_sums), "cpu")
    assert one.peak_bytes is not None
    assert two.peak_bytes is not None
    assert two.peak_bytes - one.peak_bytes == a.nbytes
    assert one.peak_bytes >= 2 * a.nbytes
    assert "aten::add" in one.kernels
    assert inspect(Ready(run=lambda: a @ a), "cpu").kernels[0] == "aten::mm"


def test_what_is_inspected_is_prepared_as_what_is_timed() -> None:
    log: list[str] = []
    ready = Ready(run=lambda: log.append("run"), rotate=lambda: log.append("rotate"))
    inspect(ready, "cpu")
    assert log == ["rotate", "run"]


def test_a_backward_pass_is_seen_too() -> None:
    w = torch.rand(300, 300, requires_grad=True)

    def step() -> None:
        (w @ w).relu().sum().backward()
        w.grad = None

    # One that is interrupted on a busy machine takes the others' part of the time with it.
    seen = (set(inspect(Ready(run=step), "cpu").kernels) for _ in range(10))
    assert any({"aten::mm", "aten::threshold_backward"} <= kernels for kernels in seen)
