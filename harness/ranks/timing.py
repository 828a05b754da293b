"""The time of what all ranks do together: that of the slowest, as all of them agree."""

from __future__ import annotations

import time
from collections.abc import Callable
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
"""Samples."""
EFFORT = Effort(goal=0.05, limit=0.4, warmup=0.05)
"""Of a collective: one run of it differs from the next by more than kernels do."""

STEP = Effort(goal=0.03, limit=3.0, warmup=0.5)
"""Of a step of training, and of what a rank computes of it alone."""


def measure(run: Callable[[], Any], device: Device, effort: Effort, error: float | None = None) -> Measurement:
    """The median over executions of the slowest rank's seconds. Every rank calls it, and gets the same.

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
        if len(samples) >= LEAST and len(samples) % LEAST == 0:
            done = median_interval(samples)
            if done.width <= effort.goal or spent >= effort.limit:
                break
    found = median_interval(samples)
    return Measurement(
        seconds=_short(found.value),
        low=_short(found.low),
        high=_short(found.high),
        samples=tuple(map(_short, samples)),
        clock="host",
        cache="hot",
        converged=found.width <= effort.goal,
        warmup=warmup,
        error=error,
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


def _slowest(run: Callable[[], Any], device: Device, repeats: int) -> float:
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
