"""Chunks on processes of this machine, by the standard library's pool."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait as wait_for
from typing import Any

from calc.workers.job import Job, Part, Work, lost

PERIOD = 0.2
"""Seconds between two looks at whether somebody wants to stop."""
ATTEMPTS = 4
"""How often a chunk is begun whose worker ends: which of those under way did it is not known."""
AHEAD = 2
"""Chunks under way for each worker, so that none waits for the next."""


class Processes:
    """So many processes, each of which imports what it needs afresh. One that ends is replaced, and what was under way
    begun again."""

    def __init__(self, job: Job, count: int) -> None:
        self._job, self._count = job, count
        self._under_way: dict[Future[Part], tuple[int, Any]] = {}
        self._begun: Counter[int] = Counter()
        self._open()

    @property
    def slots(self) -> int:
        return self._count * AHEAD

    def submit(self, place: int, chunk: Any) -> None:
        self._begun[place] += 1
        try:
            self._under_way[self._pool.submit(_run, chunk)] = (place, chunk)
        except BrokenProcessPool:
            # A worker ended while nothing was being waited for.
            self._again([(place, chunk)])

    def finished(self) -> Iterator[tuple[int, Part]]:
        done, _ = wait(self._under_way, PERIOD, FIRST_COMPLETED)
        broken = [future for future in done if isinstance(future.exception(), BrokenProcessPool)]
        for future in done.difference(broken):
            place, _ = self._under_way.pop(future)
            del self._begun[place]
            yield place, future.result()
        if broken:
            self._again([])

    def close(self) -> None:
        idle = not self._under_way
        self._pool.shutdown(wait=idle, cancel_futures=True)
        if not idle:
            for child in self._children():
                child.terminate()
                child.join()

    def _open(self) -> None:
        self._others = {child.pid for child in active_children()}
        shared = (self._job.work, self._job.shared)
        # Forked processes would share locks with threads that they do not have.
        self._pool = ProcessPoolExecutor(self._count, get_context("spawn"), _begin, shared)

    def _children(self) -> list[Any]:
        return [child for child in active_children() if child.pid not in self._others]

    def _again(self, also: list[tuple[int, Any]]) -> None:
        """New processes for all that has no result; the ones before are gone, or end now."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for child in self._children():
            child.terminate()
            child.join()
        left = [*self._under_way.values(), *also]
        self._under_way.clear()
        for place, _ in left:
            if self._begun[place] >= ATTEMPTS:
                raise lost(place, self._begun[place])
        self._open()
        for place, chunk in left:
            self.submit(place, chunk)


_OWN: list[tuple[Work, Any]] = []
"""In a worker: what it does, and what all its chunks share."""


def _begin(work: Work, shared: Any) -> None:
    """What a worker does first. Ctrl-C is for its parent to hear, with whom it ends, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    _OWN.append((work, shared))


def _end_with(parent: int) -> None:
    wait_for([parent])
    os._exit(1)


def _run(chunk: Any) -> Part:
    work, shared = _OWN[0]
    return work(shared, chunk)
