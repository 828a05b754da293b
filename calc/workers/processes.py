"""Chunks on processes of this machine, each a pool of one from the standard library."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait as wait_for
from typing import Any

from calc.errors import Refused
from calc.workers.job import Job, Part, Work, lost

PERIOD = 0.2
"""Seconds between two looks at whether somebody wants to stop."""
ATTEMPTS = 4
"""How often a chunk is begun whose worker ends: which of those under way did it is not known."""
AHEAD = 2
"""Chunks under way for each worker, so that none waits for the next."""
CHOICE = 14
"""Further chunks that wait for each worker, so that it finds among them one that is like those it had before."""


@dataclass(eq=False)
class _Process:
    """One process. ready: done once it knows its work. kinds: of the chunks that it has been given so far, by
    `Job.kind`."""

    pool: ProcessPoolExecutor
    ready: Future[None]
    children: list[Any]
    under_way: dict[Future[Part], tuple[int, Any]] = field(default_factory=dict)
    kinds: set[Any] = field(default_factory=set)


class Processes:
    """So many processes, each of which imports what it needs afresh, and is given chunks of the kinds that it had
    before as long as there are some. One that ends is replaced, and what was under way begun again.

    Errors: Refused where the machine has no room for so many, as of open files, of which each takes nine.
    """

    def __init__(self, job: Job, count: int) -> None:
        self._job = job
        self._work = pickle.dumps((job.work, job.shared))
        self._waiting: dict[int, Any] = {}
        self._begun: Counter[int] = Counter()
        self._processes: list[_Process] = []
        try:
            for _ in range(min(count, job.count)):
                self._processes.append(self._open())
        except OSError as error:
            self.close()
            why = f"fewer processes: after {len(self._processes)} of them {error.strerror or error}"
            raise Refused("--workers", why, count) from None

    @property
    def slots(self) -> int:
        return len(self._processes) * (AHEAD + CHOICE)

    def submit(self, place: int, chunk: Any) -> None:
        self._waiting[place] = chunk

    def finished(self) -> Iterator[tuple[int, Part]]:
        self._hand_out()
        futures = [future for each in self._processes for future in each.under_way]
        done, _ = wait(futures, PERIOD, FIRST_COMPLETED)
        for i, each in enumerate(self._processes):
            own = [future for future in each.under_way if future in done]
            broken = any(isinstance(future.exception(), BrokenProcessPool) for future in own)
            for future in own:
                if not isinstance(future.exception(), BrokenProcessPool):
                    place, _ = each.under_way.pop(future)
                    del self._begun[place]
                    yield place, future.result()
            if broken:
                self._processes[i] = self._again(each)

    def close(self) -> None:
        for each in self._processes:
            idle = each.ready.done() and not each.under_way
            each.pool.shutdown(wait=idle, cancel_futures=True)
            if not idle:
                _end(each)

    def _open(self) -> _Process:
        others = {child.pid for child in active_children()}
        # Forked processes would share locks with threads that they do not have.
        pool = ProcessPoolExecutor(1, get_context("spawn"), _begin)
        with _deaf():
            # Which starts it. Its work goes the way of chunks, whose pipe a thread fills: arguments of `_begin` would
            # hold this one up until all is imported there, and for ever where it ends before.
            ready = pool.submit(_learn, self._work)
        return _Process(pool, ready, [child for child in active_children() if child.pid not in others])

    def _hand_out(self) -> None:
        """Give processes that have room a chunk that suits them, the idlest first."""
        while self._waiting:
            room = sorted((each for each in self._processes if len(each.under_way) < AHEAD), key=_load)
            found = next(((each, place) for each in room if (place := self._suiting(each)) is not None), None)
            if found is None:
                return
            self._start(*found, self._waiting[found[1]])

    def _suiting(self, one: _Process) -> int | None:
        """The first chunk of a kind that this process had before, or that none had; any for one that has none."""
        known = {kind for each in self._processes for kind in each.kinds}
        kinds = {place: self._kind(place, chunk) for place, chunk in self._waiting.items()}
        own = (place for place, kind in kinds.items() if kind in one.kinds)
        new = (place for place, kind in kinds.items() if kind not in known)
        found = next(own, None)
        found = next(new, None) if found is None else found
        return next(iter(kinds)) if found is None and not one.under_way else found

    def _kind(self, place: int, chunk: Any) -> Any:
        return place if self._job.kind is None else self._job.kind(chunk)

    def _start(self, each: _Process, place: int, chunk: Any) -> None:
        self._begun[place] += 1
        each.kinds.add(self._kind(place, chunk))
        try:
            each.under_way[each.pool.submit(_run, chunk)] = (place, chunk)
            del self._waiting[place]
        except BrokenProcessPool:
            # It ended while nothing was being waited for; the chunk goes on waiting.
            self._processes[self._processes.index(each)] = self._again(each)

    def _again(self, each: _Process) -> _Process:
        """A new process in the place of one that is gone, or ends now; what it had under way waits anew."""
        each.pool.shutdown(wait=False, cancel_futures=True)
        _end(each)
        for place, chunk in each.under_way.values():
            if self._begun[place] >= ATTEMPTS:
                raise lost(place, self._begun[place])
            self._waiting[place] = chunk
        self._waiting = dict(sorted(self._waiting.items()))
        return self._open()


def _load(each: _Process) -> int:
    return len(each.under_way)


def _end(each: _Process) -> None:
    for child in each.children:
        child.terminate()
        child.join()


@contextmanager
def _deaf() -> Iterator[None]:
    """Ctrl-C waits until the end of this; processes that are started in it never hear it, not even as they begin."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_OWN: list[tuple[Work, Any]] = []
"""In a worker: what it does, and what all its chunks share."""


def _begin() -> None:
    """What a worker does first. Ctrl-C is for its parent to hear, with whom it ends, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(parent: int) -> None:
    wait_for([parent])
    os._exit(1)


def _learn(work: bytes) -> None:
    _OWN.append(pickle.loads(work))


def _run(chunk: Any) -> Part:
    work, shared = _OWN[0]
    return work(shared, chunk)
