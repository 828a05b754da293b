"""What ran, and how much memory it took: one execution under a microscope, apart from the timed ones."""

from __future__ import annotations

import gc
from typing import Any, NamedTuple

from calc.spec.fields import DeviceKind
from harness.cases.case import Ready

MOST = 40
"""Kernels that are named, those that took longest first."""
SPANS = ("[memory]", "ProfilerStep", "Optimizer.", "autograd::", "Torch-Compiled Region", "## ")
SHARE = 0.002
"""Of the time that an operator must take to be named, on a CPU, where every view is one too."""


class Inspection(NamedTuple):
    """kernels: names of what ran, the longest first, with kernel_seconds of each. peak_bytes: most that tensors took at
    once, None: not known. reserved_bytes: most that a GPU's allocator had taken for them, since the case was made
    ready."""

    kernels: tuple[str, ...]
    kernel_seconds: tuple[float, ...]
    peak_bytes: int | None
    reserved_bytes: int | None = None


def inspect(ready: Ready, device: DeviceKind) -> Inspection:
    """Execute once on `device` under the profiler. Imports torch.

    On a GPU the kernels are those that its driver saw, and the peak is the allocator's. On a CPU they are ATen's
    operators that took time themselves, and the peak is summed up from every allocation and release that the profiler
    saw, on top of the tensors that were there before.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    from reference_models.saved import peak_allocation

    _prepare(ready)
    if device == "cpu":
        before = live_bytes()
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
            ready.run()
        return Inspection(*_named(seen, False), before + _growth(seen))
    peak = peak_allocation(ready.run)
    reserved = torch.cuda.memory_reserved()
    _prepare(ready)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        ready.run()
        torch.cuda.synchronize()
    return Inspection(*_named(seen, True), peak, reserved)


def _prepare(ready: Ready) -> None:
    """As before a timed execution: the next inputs."""
    if ready.rotate is not None:
        ready.rotate()


def _named(seen: Any, cuda: bool) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The names of what took longest, and the seconds of all calls of each."""
    times: dict[str, float] = {}
    for event in seen.key_averages():
        on_gpu = event.device_type.name == "CUDA"
        # Spans that somebody named are no kernels, although profilers draw them on the GPU too.
        named = getattr(event, "is_user_annotation", False) or event.key.startswith(SPANS)
        if on_gpu == cuda and not named:
            time = event.self_device_time_total if cuda else event.self_cpu_time_total
            times[event.key] = times.get(event.key, 0.0) + time
    least = SHARE * sum(times.values())
    names = [name for name in sorted(times, key=lambda name: -times[name]) if times[name] >= least]
    kept = names[:MOST]
    return tuple(name[:200] for name in kept), tuple(float(f"{times[name] / 1e6:.4g}") for name in kept)


def _growth(seen: Any) -> int:
    """The highest sum of what was allocated less what was released."""
    events = (event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]")
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


def live_bytes() -> int:
    """Bytes of all tensors that Python can reach, storages once."""
    import torch

    # What nobody holds any more would count here, and be given back in the middle of what follows.
    gc.collect()
    storages: dict[int, int] = {}
    for thing in gc.get_objects():
        # Asking a lazy module's attribute for its class may import it; the type itself is never lazy.
        # Subclasses, such as the fake tensors that compilers leave behind, have no memory of their own.
        if (
            type(thing) in (torch.Tensor, torch.nn.Parameter)
            and thing.device.type == "cpu"
            and thing.layout == torch.strided
        ):
            storage = thing.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())
