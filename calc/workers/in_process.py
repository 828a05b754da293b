"""Chunks one after the other in this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from calc.workers.job import Job, Part


class InProcess:
    """No worker but this process."""

    slots = 1

    def __init__(self, job: Job) -> None:
        self._job = job
        self._waiting: list[tuple[int, Any]] = []

    def submit(self, place: int, chunk: Any) -> None:
        self._waiting.append((place, chunk))

    def finished(self) -> Iterator[tuple[int, Part]]:
        while self._waiting:
            place, chunk = self._waiting.pop()
            yield place, self._job.work(self._job.shared, chunk)

    def close(self) -> None:
        self._waiting.clear()
