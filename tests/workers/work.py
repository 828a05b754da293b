"""Work for tests, which processes and nodes import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calc.errors import Refused
from calc.workers.job import Job, Part

CHUNKS = 24


class Told(NamedTuple):
    """log: folder in which every run of a chunk leaves a file. seconds: of a chunk. deadly: chunks whose worker ends
    the first so many times that they run."""

    log: str
    seconds: float = 0.0
    deadly: tuple[tuple[int, int], ...] = ()


def noted(told: Told, chunk: int) -> Part:
    """Numbers that depend on the chunk, with a note that it was run."""
    runs = ran(Path(told.log), chunk)
    Path(told.log, f"{chunk}-{time.time_ns()}-{os.getpid()}").touch()
    if runs < dict(told.deadly).get(chunk, 0):
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(told.seconds)
    values = np.random.default_rng(chunk).standard_normal(100)
    return Part({"value": np.cumsum(np.exp(values))}, {"chunk": chunk, "sum": float(values.sum())})


def refuses(told: Told, chunk: int) -> Part:
    """A chunk in the middle that is refused."""
    if chunk == CHUNKS // 2:
        raise Refused("chunk", "another one", chunk)
    return noted(told, chunk)


def ran(log: Path, chunk: int) -> int:
    """How often a chunk was begun."""
    return len(list(log.glob(f"{chunk}-*")))


def job(log: Path, seconds: float = 0.0, deadly: tuple[tuple[int, int], ...] = (), work: Any = noted) -> Job:
    log.mkdir(exist_ok=True)
    return Job("noted", lambda: {"what": "test"}, work, Told(str(log), seconds, deadly), range(CHUNKS), CHUNKS)


def same(one: list[tuple[int, Part]], other: list[tuple[int, Part]]) -> bool:
    """Whether two lists of results are equal bit for bit."""
    return [(place, part.facts) for place, part in one] == [(place, part.facts) for place, part in other] and all(
        mine.columns[name].tobytes() == theirs.columns[name].tobytes()
        for (_, mine), (_, theirs) in zip(one, other, strict=True)
        for name in mine.columns
    )
