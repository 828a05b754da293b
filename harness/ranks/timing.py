"""The time of what all ranks do together: that of the slowest, as all of them agree."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from calc.spec.fields import DeviceKind
from harness.measuring.statistics import median_interval
from harness.record import Measurement

SAMPLE = 2e-3
"""Seconds of a sample at least: shorter executions are repeated within one, since ranks leave a barrier at times that
differ by a part of this."""
MOST_REPEATS = 200
LEAST, MOST = 7, 140
"""Samples of a burst: after how many it is looked at, and at most."""
QUARTILE = 0.25
"""Which of all samples is the time. Whatever else runs on a rank's machine holds up all ranks, and never hastens one:
on two cores with a load of six, medians of the same collective half a second each differed by 5 to 90 % (standard
deviation of the logarithm), lower quartiles of five bursts apart by 1 to 8 %."""
BURSTS = 5
"""How often each is come back to: other programs are busy for longer than one is measured."""

GOAL = 0.05
"""Width of the interval at which a measurement is good: runs of a collective differ by more than those of kernels."""
SHORT, LONG = 0.1, 0.6
"""Seconds of a burst at most, of what takes less than a twentieth of a second and of steps."""
WAITED = 4
"""How many times as long a burst lasts at most with all that its ranks wait for each other between samples."""
WARM = 0.02
"""Seconds that a burst's first executions take at least, which do not count."""

Run = Callable[[], Any]


def measure_all(made: Sequence[Callable[[], Run]], device: DeviceKind) -> list[Measurement]:
    """The times of an execution of several things on the slowest rank, in bursts by turns; every rank calls it, and
    gets the same. made: what makes each of them ready, once a burst."""
    found: list[tuple[list[float], int]] = [([], 0) for _ in made]
    for _ in range(BURSTS):
        for place, make in enumerate(made):
            samples, warmup = _burst(make(), device)
            found[place] = ([*found[place][0], *samples], found[place][1] + warmup)
    return [_measured(samples, warmup) for samples, warmup in found]


def _burst(run: Run, device: DeviceKind) -> tuple[list[float], int]:
    """Seconds of an execution in each sample, and how many executions went before them.

    All that is decided depends on times that the ranks have exchanged, so that they decide alike.
    """
    one = max(_slowest(run, device, 1)[0] for _ in range(2))
    warmup, spent = 2, 0.0
    while spent < WARM:
        one, _ = _slowest(run, device, 1)
        spent, warmup = spent + max(one, 1e-5), warmup + 1
    repeats, limit = min(MOST_REPEATS, max(1, round(SAMPLE / one))), LONG if one > SHORT / 2 else SHORT
    samples: list[float] = []
    spent = waited = 0.0
    while len(samples) < MOST:
        seconds, whole = _slowest(run, device, repeats)
        samples.append(seconds / repeats)
        spent, waited = spent + seconds, waited + whole
        if (spent >= limit or waited >= WAITED * limit) and len(samples) > 1:
            break
        if len(samples) % LEAST == 0 and median_interval(samples, quantile=QUARTILE).width <= GOAL:
            break
    return samples, warmup


def _measured(samples: list[float], warmup: int) -> Measurement:
    found = median_interval(samples, quantile=QUARTILE)
    return Measurement(
        seconds=_short(found.value),
        low=_short(found.low),
        high=_short(found.high),
        samples=tuple(map(_short, samples)),
        clock="host",
        cache="hot",
        converged=found.width <= GOAL,
        warmup=warmup,
    )


def worst(value: float, device: DeviceKind) -> float:
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


def _slowest(run: Run, device: DeviceKind, repeats: int) -> tuple[float, float]:
    """Seconds of so many executions on the slowest rank, and those since it came to wait for the others."""
    import torch
    import torch.distributed as dist

    came = time.perf_counter()
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(repeats):
        run()
    if device == "cuda":
        torch.cuda.synchronize()
    end = time.perf_counter()
    held = torch.tensor([end - begin, end - came], dtype=torch.float64, device=device)
    dist.all_reduce(held, dist.ReduceOp.MAX)
    seconds, whole = held.tolist()
    return seconds, whole


def _short(seconds: float) -> float:
    return float(f"{seconds:.6g}")
