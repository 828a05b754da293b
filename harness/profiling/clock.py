"""Timing a few executions of one thing: host time on a CPU, CUDA graphs or events on a GPU. Needs torch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import islice
from statistics import median
from typing import Any, Protocol

import torch
from torch import Tensor

from calc.spec.fields import DeviceKind

_BLOCK = 2**20
"""Random numbers that are drawn; the rest of a pool repeats them."""


class Clock(Protocol):
    """Seconds of one execution."""

    def each(self, run: Callable[[Any], Any], items: Sequence[Any]) -> float:
        """`run(item)` for every item; the first is for warming up."""
        ...

    def pair(self, forward: Callable[[Any], Any], backward: Callable[[Any], Any], items: Sequence[Any]) -> Any:
        """(seconds of `forward(item)`, seconds of `backward(what it gave)`)."""
        ...


class HostClock:
    """The host's clock around each execution; the median of all but the first."""

    def each(self, run: Callable[[Any], Any], items: Sequence[Any]) -> float:
        return self._all(run, items)[0]

    def pair(
        self, forward: Callable[[Any], Any], backward: Callable[[Any], Any], items: Sequence[Any]
    ) -> tuple[float, float]:
        # As in a step: every result of the forward pass is still there when the first goes back.
        ahead, made = self._all(forward, items)
        back, _ = self._all(backward, made)
        return ahead, back

    def _all(self, run: Callable[[Any], Any], items: Sequence[Any]) -> tuple[float, list[Any]]:
        seconds, made = [], []
        for item in items:
            begun = time.perf_counter()
            result = run(item)
            seconds.append(time.perf_counter() - begun)
            made.append(result)
        return median(seconds[1:] or seconds), made


class CudaClock:
    """All executions in one CUDA graph between two events, so that what the host takes to ask for them has no part.

    Errors: RuntimeError for what waits for the GPU, which cannot be captured.
    """

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()

    def each(self, run: Callable[[Any], Any], items: Sequence[Any]) -> float:
        def work() -> list[Any]:
            return [run(item) for item in items]

        self._warm_up(work)
        graph, _ = self._captured(work, None)
        return self._replayed(graph) / len(items)

    def pair(
        self, forward: Callable[[Any], Any], backward: Callable[[Any], Any], items: Sequence[Any]
    ) -> tuple[float, float]:
        self._warm_up(lambda: [backward(result) for result in [forward(item) for item in items]])
        memory = torch.cuda.graph_pool_handle()
        # Memory that two graphs share is the first one's, which must live as long as the second reads from it.
        first, made = self._captured(lambda: [forward(item) for item in items], memory)
        ahead = self._replayed(first)
        second, _ = self._captured(lambda: [backward(result) for result in made], memory)
        return ahead / len(items), self._replayed(second) / len(items)

    def _warm_up(self, work: Callable[[], list[Any]]) -> None:
        """On the stream of the capture: libraries make their handles for each, which a capture must not do.

        All at once, as it is captured: if memory runs out it does so here, which harms no later capture.
        """
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            work()
        torch.cuda.synchronize()

    def _captured(self, work: Callable[[], list[Any]], memory: Any) -> tuple[torch.cuda.CUDAGraph, list[Any]]:
        """The graph of `work`, and what it gives, whose memory is the graph's."""
        graph = torch.cuda.CUDAGraph()
        # Where a capture fails, `torch.cuda.graph` may leave its stream the current one.
        with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph, memory, self._stream):
            made = work()
        return graph, made

    def _replayed(self, graph: torch.cuda.CUDAGraph) -> float:
        """Seconds of all that the graph holds."""
        return median(self._between_events(graph.replay) for _ in range(3))

    def _between_events(self, run: Callable[[], Any]) -> float:
        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        # Once before, so that the GPU is still busy when the timed one is asked for, and does not wait for that.
        run()
        begun.record()
        run()
        ended.record()
        ended.synchronize()
        return begun.elapsed_time(ended) / 1e3


class Pool:
    """Random numbers, a different piece each time one is asked for, so that inputs are not in a near cache already.

    Normal numbers: zeros are multiplied faster, and numbers beyond a kernel's range slower.
    """

    def __init__(self, device: str, dtype: torch.dtype, elements: int) -> None:
        generator = torch.Generator(device).manual_seed(0)
        block = torch.randn(_BLOCK, generator=generator, device=device).to(dtype)
        self.numbers = block.repeat(-(-elements // _BLOCK))
        self.written = self.numbers[: self.numbers.numel() // 2].clone()
        self.device, self.dtype, self._next = device, dtype, 0

    def take(self, *shape: int) -> Tensor:
        """A contiguous tensor of that shape, to be read. Errors: RuntimeError where the pool has not so many."""
        return self._piece(self.numbers, shape)

    def scratch(self, *shape: int) -> Tensor:
        """As `take`, to be written to."""
        return self._piece(self.written, shape)

    def _piece(self, numbers: Tensor, shape: tuple[int, ...]) -> Tensor:
        elements, held = torch.Size(shape).numel(), numbers.numel()
        if elements > held:
            raise RuntimeError(f"a tensor of {elements:,} elements where the pool has {held:,}")
        begin = self._next % held
        begin = begin if begin + elements <= held else 0
        # Whole cache lines apart, and not by a power of two, which would put all of them at one place of a cache.
        self._next = begin + (elements // 64 + 3) * 64
        return numbers[begin : begin + elements].view(shape)

    def leaf(self, *shape: int) -> Tensor:
        """As `take`, with a gradient to be found."""
        return self.take(*shape).detach().requires_grad_()

    def heads(self, batch: int, seq: int, heads: int, d_head: int) -> Tensor:
        """[batch, heads, seq, d_head], strided as views of what a projection gave are, with a gradient to be found.

        A leaf, since the view of one would remember the stream that it was made on: going back, autograd makes that one
        wait for the stream of a capture, which ends the capture.
        """
        laid = self.take(batch, seq, heads * d_head).unflatten(-1, (heads, d_head)).transpose(1, 2)
        return laid.detach().requires_grad_()


def repeats(cost: float, least: int = 3, most: int = 20, target: float = 0.01) -> int:
    """How often something that takes about `cost` seconds is executed in one visit."""
    return int(min(max(target / max(cost, 1e-9), least), most)) + 1


def several(make: Callable[[], Any], count: int) -> list[Any]:
    """`count` results of `make`."""
    return list(islice(iter(make, object()), count))


def clock_of(device: DeviceKind) -> Clock:
    """The clock for a device."""
    return CudaClock() if device == "cuda" else HostClock()
