"""Who works: this process, several of this machine, or a Ray cluster; and how results come back, the same from all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from calc.errors import Refused
from calc.workers.finished_parts import FinishedParts
from calc.workers.job import Backend, Job, Part
from calc.workers.stopping import stoppable

MOST = 1024
"""Processes of one machine."""
SPREAD = 2
"""How far ahead of the oldest unfinished chunk others are begun, as a multiple of what is under way: what is finished
out of order waits in memory."""


@dataclass(frozen=True, slots=True)
class Workers:
    """count: processes of this machine; 1 is this one. ray: address of a Ray cluster's head, or `auto`, in their place.
    keep: folder for finished chunks, from which a restart goes on. The answer is the same from all of them.

    Errors: Refused for a count out of range, and for both kinds together.
    """

    count: int = 1
    ray: str | None = None
    keep: Path | None = None

    def __post_init__(self) -> None:
        if type(self.count) is not int or not 1 <= self.count <= MOST:
            raise Refused("--workers", f"a whole number from 1 to {MOST:,}", self.count)
        if self.ray is not None and self.count > 1:
            raise Refused("--workers", "none beside --ray, whose cluster has its own", self.count)

    def results(self, job: Job) -> Iterator[tuple[int, Part]]:
        """The part of every chunk, in order; where parts are kept, those that are there are read and not run again.

        Ctrl-C is heard between chunks: what is finished until then comes out, and then KeyboardInterrupt.
        Errors: whatever the work raises; ChildProcessError for a chunk that no worker survives; Refused where workers
        cannot be had.
        """
        finished = None if self.keep is None else FinishedParts(self.keep, job)
        with stoppable() as stopped:
            stream = _Stream(job, finished, self._backend(job) if job.count else None)
            try:
                while stream.left and not stopped.is_set():
                    stream.advance()
                    yield from stream.ready()
                if stopped.is_set():
                    yield from stream.rest()
                    raise KeyboardInterrupt
            finally:
                stream.close()

    def _backend(self, job: Job) -> Backend:
        if self.ray is not None:
            from calc.workers.ray_cluster import RayCluster

            return RayCluster(job, self.ray)
        if self.count > 1:
            from calc.workers.processes import Processes

            return Processes(job, self.count)
        from calc.workers.in_process import InProcess

        return InProcess(job)


HERE = Workers()


class _Stream:
    """One job under way. waiting: parts that are finished, with others before them that are not."""

    def __init__(self, job: Job, parts: FinishedParts | None, backend: Backend | None) -> None:
        self.job, self.parts, self.backend = job, parts, backend
        self.known = frozenset() if parts is None else parts.known()
        self.chunks = ((place, chunk) for place, chunk in enumerate(job.chunks) if place not in self.known)
        self.next = 0
        self.begun = 0
        self.under_way = 0
        self.waiting: dict[int, Part] = {}

    @property
    def left(self) -> bool:
        return self.next < self.job.count

    def advance(self) -> None:
        """Begin what there is room for, and take what has been finished."""
        backend = self.backend
        assert backend is not None
        slots = backend.slots
        while self.under_way < slots and self.begun < self.next + slots * SPREAD:
            place, chunk = next(self.chunks, (self.job.count, None))
            self.begun = place
            if place >= self.job.count:
                break
            backend.submit(place, chunk)
            self.under_way += 1
        for place, part in backend.finished() if self.under_way else ():
            self.under_way -= 1
            if self.parts is not None:
                self.parts.write(place, part)
            self.waiting[place] = part

    def ready(self) -> Iterator[tuple[int, Part]]:
        """What stands at the front, in order."""
        while self.next in self.waiting or self.next in self.known:
            yield self.next, self._take(self.next)
            self.next += 1

    def rest(self) -> Iterator[tuple[int, Part]]:
        """All that is finished beside, in order; what is missing between stays missing."""
        there = (place for place in self.known if place >= self.next)
        for place in sorted({*self.waiting, *there}):
            yield place, self._take(place)

    def close(self) -> None:
        if self.backend is not None:
            self.backend.close()

    def _take(self, place: int) -> Part:
        if place in self.waiting:
            return self.waiting.pop(place)
        assert self.parts is not None
        return self.parts.read(place)
