"""Timing what passes beside the work of kernels: asking for one, forward and back, and a step's own. Needs torch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import torch
from torch import nn

from calc.spec.fields import DeviceKind
from harness.profiling.samples import Key, Station

_KERNELS = 200


def waiting(device: str) -> Callable[[], None]:
    """What waits until a device has done what it was asked; a CPU never lags behind."""
    return torch.cuda.synchronize if device == "cuda" else _nothing


def launch_station(device: DeviceKind) -> Station:
    """Host seconds for one small kernel when Python asks for it and when autograd does, and for a step's ends."""

    def measure() -> Iterator[tuple[Key, float]]:
        x = torch.ones(8, device=device, requires_grad=True)
        wait = waiting(device)
        made: list[Any] = []

        def forward() -> None:
            y = x
            for _ in range(_KERNELS):
                y = y * 1.01
            made[:] = [y.sum()]

        yield Key("launch.eager", ()), _seconds(forward, wait, _nothing) / _KERNELS
        yield Key("launch.backward", ()), _seconds(lambda: made[0].backward(), wait, forward) / _KERNELS
        yield Key("launch.step", ()), _ends(device, wait)

    return Station("launch", measure)


def _ends(device: str, wait: Callable[[], None]) -> float:
    """Seconds of a backward pass and an update with next to nothing to do."""
    weight = nn.Parameter(torch.ones(8, device=device))
    optimizer = torch.optim.AdamW([weight], lr=1e-6, fused=True)

    def step() -> None:
        weight.sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return _seconds(step, wait, _nothing)


def _seconds(run: Callable[[], Any], wait: Callable[[], None], before: Callable[[], Any], times: int = 6) -> float:
    found = []
    for _ in range(times):
        before()
        wait()
        begun = time.perf_counter()
        run()
        found.append(time.perf_counter() - begun)
        wait()
    return median(found[1:])


def _nothing() -> None:
    """For a device that never lags behind."""
