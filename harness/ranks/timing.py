"""The time of what all ranks do together: that of the slowest, as all of them agree."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from harness.cases.case import Device
from harness.measuring.statistics import median_interval
from harness.measuring.timing import Effort
from harness.record import Measurement

SAMPLE = 2e-3
"""Seconds of a sample at least: shorter executions are repeated within one, since ranks leave a barrier at times that
differ by a part of this."""
MOST_REPEATS = 200
LEAST, MOST = 7, 140
"""Samples of a burst."""
QUARTILE = 0.25
"""Which of all samples is the time. Whatever else runs on a rank's machine holds up all ranks, and never hastens one:
on two cores with a load of six, medians of the same collective half a second each differed by 5 to 90 % (standard
deviation of the logarithm), lower quartiles of five bursts apart by 1 to 8 %."""
BURSTS = 5
"""How often a collective is come back to: other programs are busy for longer than one is measured."""

EFFORT = Effort(goal=0.05, limit=0.1, warmup=0.02)
"""Of one burst of a collective: one run of it differs from the next by more than kernels do."""
STEP = Effort(goal=0.03, limit=3.0, warmup=0.5)
"""Of a step of training, and of what a rank computes of it alone."""

Run = Callable[[], Any]


def measure(run: Run, device: Device, effort: Effort) -> Measurement:
    """The time of an execution on the slowest rank, of one burst. Every rank calls it, and gets the same."""
    samples, warmup = _burst(run, device, effort)
    return _measured(samples, warmup, effort)


def measure_all(made: Sequence[Callable[[], Run]], device: Device) -> list[Measurement]:
    """The times of several things, in bursts by turns. made: what makes each of them ready, once a burst, so that no
    two of them are held at once. Every rank calls it, and gets the same."""
    found: list[tuple[list[float], int]] = [([], 0) for _ in made]
    for _ in range(BURSTS):
        for place, make in enumerate(made):
            samples, warmup = _burst(make(), device, EFFORT)
            found[place] = ([*found[place][0], *samples], found[place][1] + warmup)
    return [_measured(samples, warmup, EFFORT) for samples, warmup in found]


def _burst(run: Run, device: Device, effort: Effort) -> tuple[list[float], int]:
    """Seconds of an execution in each sample, and how many executions went before them.

    All that is decided depends on times that the ranks have exchanged, so that they decide alike.
    """
    one = max(_slowest(run, device, 1) for _ in range(2))
    warmup, spent = 2, 0.0
    while spent < effort.warmup:
        one = _slowest(run, device, 1)
        spent, warmup = spent + max(one, 1e-5), warmup + 1
    repeats = min(MOST_REPEATS, max(1, round(SAMPLE / one)))
    samples: list[float] = []
    spent = 0.0
    while len(samples) < MOST:
        seconds = _slowest(run, device, repeats)
        samples.append(seconds / repeats)
        spent += seconds
        if len(samples) >= LEAST and len(samples) % LEAST == 0 and (spent >= effort.limit or _sure(samples, effort)):
            break
    return samples, warmup


def _sure(samples: list[float], effort: Effort) -> bool:
    return median_interval(samples, quantile=QUARTILE).width <= effort.goal


def _measured(samples: list[float], warmup: int, effort: Effort) -> Measurement:
    found = median_interval(samples, quantile=QUARTILE)
    return Measurement(
        seconds=_short(found.value),
        low=_short(found.low),
        high=_short(found.high),
        samples=tuple(map(_short, samples)),
        clock="host",
        cache="hot",
        converged=found.width <= effort.goal,
        warmup=warmup,
    )


def worst(value: float, device: Device) -> float:
    """The largest of all ranks' values."""
    import torch
    import torch.distributed as dist

    held = torch.tensor(value, dtype=torch.float64, device=device)
    dist.all_reduce(held, dist.ReduceOp.MAX)
    return float(held)


def agreed(value: Any) -> Any:
    """What rank 0 says, on every rank."""
    import torch.distributed as dist

    held = [value]
    dist.broadcast_object_list(held, src=0)
    return held[0]


def _slowest(run: Run, device: Device, repeats: int) -> float:
    import torch
    import torch.distributed as dist

    dist.barrier()
    begin = time.perf_counter()
    for _ in range(repeats):
        run()
    if device == "cuda":
        torch.cuda.synchronize()
    return worst(time.perf_counter() - begin, device)


def _short(seconds: float) -> float:
    return float(f"{seconds:.6g}")
