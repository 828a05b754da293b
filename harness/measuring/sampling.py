"""What the machine says of itself while something runs: a GPU of clocks, power and why it held back, through NVML, and
the kernel of how long threads waited for a core.

Nothing is ever set. Without the package nvidia-ml-py (extra `gpu`), or without a driver, nothing is said of a GPU.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from harness.record import Sample

REASONS = {
    0x1: "idle",
    0x2: "applications clocks",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clocks",
}
"""Bits of nvmlDeviceGetCurrentClocksEventReasons (nvml.h, nvmlClocksEventReasons)."""
FAULTS = ("hardware slowdown", "software thermal slowdown", "hardware thermal slowdown", "hardware power brake")
"""The reasons that make a measurement `throttled`: too hot, or too little power from outside. The others are how the
device always works: a large bf16 product runs at the software power cap on every day of its life."""


def reasons(mask: int) -> tuple[str, ...]:
    """The names of the bits of a mask, but for idleness, which says nothing of a time."""
    return tuple(name for bit, name in REASONS.items() if mask & bit and bit != 0x1)


class Gpu(NamedTuple):
    """A device as NVML knows it."""

    nvml: Any
    handle: Any


def find_gpu() -> Gpu | None:
    """The device that torch calls `cuda:0`, None where NVML or the device is not there. Imports torch."""
    try:
        import pynvml  # pyright: ignore[reportMissingImports]
        import torch

        pynvml.nvmlInit()
        uuid = getattr(torch.cuda.get_device_properties(0), "uuid", None)
    except Exception:
        # Each of them fails with an error of its own class, and none is worth a run.
        return None
    handle = _answer(pynvml, lambda: pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{str(uuid).removeprefix('GPU-')}"))
    if handle is None and _answer(pynvml, pynvml.nvmlDeviceGetCount) == 1:
        # Where torch does not tell the id, the only device there is must be it.
        handle = _answer(pynvml, lambda: pynvml.nvmlDeviceGetHandleByIndex(0))
    return Gpu(pynvml, handle) if handle is not None else None


def facts(gpu: Gpu | None) -> dict[str, Any]:
    """driver, max_sm_clock and max_memory_clock in MHz, power_limit in W: those that NVML tells."""
    if gpu is None:
        return {}
    nvml, handle = gpu
    queries = {
        "driver": lambda: str(nvml.nvmlSystemGetDriverVersion()),
        "max_sm_clock": lambda: int(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)),
        "max_memory_clock": lambda: int(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM)),
        "power_limit": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
    }
    return {name: value for name, ask in queries.items() if (value := _answer(nvml, ask)) is not None}


def sm_clock(gpu: Gpu | None) -> float | None:
    """The clock of the multiprocessors now, in MHz."""
    if gpu is None:
        return None
    return _answer(gpu.nvml, lambda: float(gpu.nvml.nvmlDeviceGetClockInfo(gpu.handle, gpu.nvml.NVML_CLOCK_SM)))


def _answer(nvml: Any, ask: Any) -> Any:
    """What NVML answers, None where this device or this driver does not tell."""
    with suppress(nvml.NVMLError):
        return ask()
    return None


class Sampler:
    """Asks a GPU every `period` seconds while the body of a `with` runs; `result()` sums up, None without a GPU."""

    def __init__(self, gpu: Gpu | None, period: float = 0.05) -> None:
        self._gpu = gpu
        self._period = period
        self._rows: list[tuple[float | None, ...]] = []
        self._mask = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Sampler:
        if self._gpu is not None:
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        if self._gpu is not None:
            self._thread.join()
            if not self._rows:
                # It was over before the first look.
                self._look(*self._gpu)

    def result(self) -> Sample | None:
        """Medians over the time, and every reason that was there at least once."""
        if not self._rows:
            return None
        columns = ([value for value in column if value is not None] for column in zip(*self._rows, strict=True))
        sm, memory, power, heat = (median(column) if column else None for column in columns)
        return Sample(sm_clock=sm, memory_clock=memory, power=power, temperature=heat, throttle=reasons(self._mask))

    def _watch(self) -> None:
        assert self._gpu is not None
        nvml, handle = self._gpu
        # The first look is after a period: before, the device may still be idle.
        while not self._stop.wait(self._period):
            self._look(nvml, handle)

    def _look(self, nvml: Any, handle: Any) -> None:
        queries = (
            lambda: float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            lambda: float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
            lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            lambda: float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        )
        self._rows.append(tuple(_answer(nvml, ask) for ask in queries))
        self._mask |= _answer(nvml, lambda: self._reasons(nvml, handle)) or 0

    @staticmethod
    def _reasons(nvml: Any, handle: Any) -> int:
        """The call was renamed; older versions of the package have only the older name."""
        newer = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
        return int((newer or nvml.nvmlDeviceGetCurrentClocksThrottleReasons)(handle))


class Queue:
    """How long this process's threads stand in the queue for a core while the body of a `with` runs.

    A time that was taken while other programs held the cores says more of them than of the case, however narrow its
    interval is: threads of a parallel loop that take turns on one core make each sample longer by the same scheduler's
    slices.
    """

    def __enter__(self) -> Queue:
        self._before, self._begin = _queued(), time.monotonic_ns()
        return self

    def __exit__(self, *exception: object) -> None:
        passed = max(1, time.monotonic_ns() - self._begin)
        waits = [after - self._before.get(thread, 0) for thread, after in _queued().items()]
        self.share = round(max(waits) / passed, 4) if waits else None
        """Of the thread that waited most, as a part of the time; None where the system does not tell."""


def _queued() -> dict[str, int]:
    """Nanoseconds that each thread of this process was ready and had no core (Linux, Documentation/scheduler/
    sched-stats.rst, /proc/<pid>/schedstat: the second number)."""
    found: dict[str, int] = {}
    for path in Path("/proc/self/task").glob("*/schedstat"):
        # A thread may end meanwhile; a kernel without these counts has no such file.
        with suppress(OSError, ValueError, IndexError):
            found[path.parent.name] = int(path.read_text().split()[1])
    return found
