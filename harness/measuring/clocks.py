"""The clocks that a time is read from: the host's, CUDA events, and events around the replay of a CUDA graph.

Each gives samples: seconds of one execution, as the mean over a batch of them that is long against the clock's
resolution. With a cold cache a batch is one execution, and before each the caches are overwritten, outside of the time.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import repeat
from typing import Any, ClassVar, Literal

from calc.spec.fields import DeviceKind
from harness.cases.case import Ready

Name = Literal["host", "cuda-event", "cuda-graph"]
MiB = 2**20
SHORTEST = 2e-4
"""Seconds of the shortest sample: 400 times what CUDA events resolve (0.5 µs, CUDA runtime API, cudaEventElapsedTime),
and more against the host's clock."""


class Clock(ABC):
    """Takes samples of one case. batch: executions a sample."""

    name: ClassVar[Name]

    def __init__(self, ready: Ready, flush: Callable[[], Any] | None) -> None:
        self.ready = ready
        self.flush = flush
        self.batch = 1

    @property
    def single(self) -> bool:
        """Whether something is to be done before every execution, so that they cannot be batched."""
        return self.flush is not None or self.ready.rotate is not None

    def set_batch(self, seconds: float, shortest: float) -> None:
        """Make a sample at least `shortest` long, where an execution takes `seconds`."""
        if not self.single:
            self.batch = max(1, math.ceil(max(shortest, SHORTEST) / max(seconds, 1e-9)))

    def prepare(self) -> None:
        """What comes before every sample: the next inputs, and caches that hold none of them."""
        for step in (self.ready.rotate, self.flush):
            if step is not None:
                step()

    @abstractmethod
    def take(self, n: int) -> list[float]:
        """`n` samples."""


class HostClock(Clock):
    """Wall time of the host, everything done; where there is a GPU, it is waited for before and after."""

    name = "host"

    def __init__(self, ready: Ready, flush: Callable[[], Any] | None, wait: Callable[[], Any]) -> None:
        super().__init__(ready, flush)
        self.wait = wait

    def take(self, n: int) -> list[float]:
        return [self._one() for _ in range(n)]

    def _one(self) -> float:
        run, wait = self.ready.run, self.wait
        self.prepare()
        wait()
        begin = time.perf_counter_ns()
        for _ in repeat(None, self.batch):
            run()
        wait()
        return (time.perf_counter_ns() - begin) / self.batch / 1e9


class EventClock(Clock):
    """Time between two events on the GPU's stream. All samples are asked for before the host waits, so that the host
    runs ahead; where it cannot, because an execution is shorter than its launch, the launch is what is timed."""

    name = "cuda-event"

    def take(self, n: int) -> list[float]:
        import torch

        pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(n)]
        for begin, end in pairs:
            self.prepare()
            begin.record()
            self._execute()
            end.record()
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) / self.batch / 1e3 for begin, end in pairs]

    def _execute(self) -> None:
        run = self.ready.run
        for _ in repeat(None, self.batch):
            run()


class GraphClock(EventClock):
    """As events, but the batch was captured into a CUDA graph: no launch is waited for."""

    name = "cuda-graph"
    longest = 200

    def __init__(self, ready: Ready, flush: Callable[[], Any] | None) -> None:
        super().__init__(ready, flush)
        self._capture()

    def set_batch(self, seconds: float, shortest: float) -> None:
        super().set_batch(seconds, shortest)
        self.batch = min(self.batch, self.longest)
        self._capture()

    def _capture(self) -> None:
        """Warm up and capture on one stream: libraries make their handles for each, which a capture must not do."""
        import torch

        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.ready.run()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream, capture_error_mode="thread_local"):
            super()._execute()

    def _execute(self) -> None:
        self.graph.replay()


def choose(ready: Ready, device: DeviceKind, step: bool, cache: Literal["hot", "cold"]) -> Name:
    """The clock for a case that names none: a step of a model is what a user waits for, launches and all; of a kernel
    the GPU's own time is asked for, in a graph where it can be captured and its inputs stay where they are."""
    if device == "cpu" or step:
        return "host"
    return "cuda-graph" if ready.graphable and cache == "hot" and ready.rotate is None else "cuda-event"


def make_clock(name: Name, ready: Ready, device: DeviceKind, cache: Literal["hot", "cold"]) -> Clock:
    """The clock of that name. Imports torch. Errors: NotImplementedError where it cannot time this."""
    import torch

    if device == "cpu" and name != "host":
        raise NotImplementedError(f"the clock {name} is a GPU's")
    if name == "cuda-graph" and (cache == "cold" or ready.rotate is not None):
        raise NotImplementedError("a CUDA graph replays the same inputs, with what they left in the cache")
    flush = flusher(device) if cache == "cold" else None
    if name == "host":
        return HostClock(ready, flush, torch.cuda.synchronize if device == "cuda" else lambda: None)
    return EventClock(ready, flush) if name == "cuda-event" else GraphClock(ready, flush)


def flusher(device: DeviceKind) -> Callable[[], Any]:
    """What overwrites a buffer larger than the L2 cache. Imports torch.

    On a CPU it is 128 MiB, which is more than the caches of a core; of a last-level cache that is larger still, and
    shared with others, a part keeps what it had.
    """
    import torch

    size = 128 * MiB
    if device == "cuda":
        size = max(size, 4 * getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0))
    return torch.empty(size // 4, dtype=torch.int32, device=device).zero_
