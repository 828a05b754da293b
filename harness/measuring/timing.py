"""Measuring one case: warm up until it is steady, sample until the median is known, and say where it is not."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal, NamedTuple

from calc.spec.fields import DeviceKind
from harness.cases.case import Ready
from harness.measuring.clocks import Clock, Name, choose, make_clock
from harness.measuring.sampling import Gpu, Queue, Sampler, find_gpu, sm_clock
from harness.measuring.statistics import median_interval
from harness.record import Sample

UNSTABLE = 0.10
"""An interval wider than this much of the median (20 times what is asked of a kernel, 10 times of a step) makes a row
`unstable`. One between that and what was asked for is `ok` with `converged` false: on a machine that others use too it
is still worth having, and its width stands in the row. The same share of the time spent waiting for a core is too much:
the median is wrong by about that."""
STEADY = 0.02
"""Two windows of warm-up that differ by less than this are steady, and so is a clock that moves by less."""
WINDOW = 5
SAMPLES = 1000
"""Most samples that are taken, and kept."""
LEAST = 11
"""Fewest samples, where the time limit allows that many; never fewer than three."""


@dataclass(frozen=True)
class Effort:
    """How long to try. goal: width of the median's 95 % interval as a fraction of it. limit: seconds of sampling, and
    warmup: of warming up, at most; a single execution may take longer than either. patience: how many times the limit
    a measurement may take that would be `unstable` otherwise."""

    goal: float = 0.005
    limit: float = 2.0
    warmup: float = 1.0
    patience: float = 3.0

    def within(self, seconds: float) -> Effort:
        """The same, in no more than `seconds` in all."""
        part = min(1.0, seconds / (self.limit + self.warmup))
        return replace(self, limit=self.limit * part, warmup=self.warmup * part, patience=1.0)


KERNEL = Effort(goal=0.005, limit=2.0, warmup=1.0)
STEP = Effort(goal=0.01, limit=10.0, warmup=5.0)


class Timing(NamedTuple):
    """Seconds of one execution: median, its interval, the samples; warmup: executions before the first of them.
    waiting, sample: as in the record."""

    seconds: float
    low: float
    high: float
    samples: tuple[float, ...]
    clock: Name
    cache: Literal["hot", "cold"]
    converged: bool
    warmup: int
    waiting: float | None
    sample: Sample | None


def measure(
    ready: Ready,
    device: DeviceKind,
    effort: Effort = KERNEL,
    clock: Name | None = None,
    cache: Literal["hot", "cold"] = "hot",
    step: bool = False,
) -> Timing:
    """Time `ready.run`. clock None: as `harness.measuring.clocks.choose` says. Imports torch.

    Errors: NotImplementedError where the clock cannot time it; whatever `run` raises.
    """
    gpu = find_gpu() if device == "cuda" else None
    taking = make_clock(clock or choose(ready, device, step, cache), ready, device, cache)
    with _no_collection():
        executed = warm_up(taking, device, effort, gpu)
        with Sampler(gpu) as sampler, Queue() as queue:
            samples, converged = _sample(taking, effort)
    found = median_interval(samples)
    return Timing(
        *found,
        samples=tuple(samples),
        clock=taking.name,
        cache=cache,
        converged=converged,
        warmup=executed,
        waiting=queue.share,
        sample=sampler.result(),
    )


def warm_up(clock: Clock, device: DeviceKind, effort: Effort, gpu: Gpu | None = None) -> int:
    """Execute until times and the GPU's clock are steady, or the effort's time is over; how many executions.

    The first execution, in which libraries load and compilers run, is not counted against that time. The batch of a
    sample is set from what was seen.
    """
    clock.take(1)
    times = [clock.take(1)[0]]
    clock.set_batch(times[0], 0.0)
    executed, frequency = 2, sm_clock(gpu)
    begin = time.monotonic()
    least = min(0.3 if device == "cuda" else 0.05, effort.warmup)
    while (passed := time.monotonic() - begin) < effort.warmup:
        times += clock.take(1)
        executed += clock.batch
        if passed < least or len(times) < 2 * WINDOW or len(times) % WINDOW:
            continue
        before, frequency = frequency, sm_clock(gpu)
        now = _moved(median(times[-WINDOW:]), median(times[-2 * WINDOW : -WINDOW]))
        if now < STEADY and _moved(frequency, before) < STEADY:
            break
    clock.set_batch(median(times[-WINDOW:]), effort.limit / SAMPLES)
    return executed


def _moved(now: float | None, before: float | None) -> float:
    """By what part a value changed; 0 for one that is not known."""
    return abs(now / before - 1) if now and before else 0.0


def _sample(clock: Clock, effort: Effort) -> tuple[list[float], bool]:
    """Samples, and whether their median is known as well as was asked for."""
    begin = time.monotonic()
    samples = clock.take(3)
    wanted, limit = LEAST, effort.limit
    while True:
        passed = max(1e-9, time.monotonic() - begin)
        full = len(samples) >= SAMPLES
        if len(samples) >= wanted or full or passed >= limit:
            width = median_interval(samples).width
            if len(samples) >= LEAST and width <= effort.goal:
                return samples, True
            limit = effort.limit * (effort.patience if width > UNSTABLE else 1.0)
            if full or passed >= limit:
                return samples, False
            wanted = len(samples) * 5 // 4 + 1
        # As many as are wanted before the next look, but no more than fit into the time that is left.
        fit = int((limit - passed) / passed * len(samples))
        samples += clock.take(max(1, min(wanted - len(samples), fit, SAMPLES - len(samples))))


@contextmanager
def _no_collection() -> Iterator[None]:
    """Python's collector of garbage runs before, and not during."""
    gc.collect()
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
