"""What has been measured already on this machine, so that a second start goes on where the first one ended."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.record import Environment, Forecast, Run
from harness.store import files, scan_file

Key = tuple[str | None, ...]


def key(environment: Environment) -> Key:
    """What must be the same for a row to stand for a new measurement: the device, what is installed, the commit."""
    found = environment
    return (found.slug, found.device, str(found.threads), found.torch, found.cuda, found.triton, found.commit)


class Ledger:
    """The rows of one device, read again as others add to them.

    since: rows that started before are passed over (ISO 8601, UTC); None: all count.
    """

    def __init__(self, results: Path, environment: Environment, suite: str, since: str | None = None) -> None:
        self._results = results
        self._key = key(environment)
        self._suite = suite
        self._since = since
        self._sizes: dict[Path, int] = {}
        self._done: dict[str, set[str | None]] = {}
        self._walls: dict[str, float] = {}

    def refresh(self) -> None:
        """Read the files that have grown since."""
        for path in files(self._results, self._key[0]):
            size = path.stat().st_size
            if self._sizes.get(path) != size:
                self._sizes[path] = size
                for run in scan_file(path)[0]:
                    self._note(run)

    def is_done(self, case: str, forecast: Forecast | None) -> bool:
        """Whether a row stands for this case: `ok`, for the same suite or as exact as was asked for, and predicted from
        the same source, for a prediction that is made afterwards would be none."""
        sources = self._done.get(case, set())
        return bool(sources) and (forecast is None or forecast.source in sources)

    def wall(self, case: str) -> float | None:
        """Seconds that a case took when it last ran here; None where it did not."""
        return self._walls.get(case)

    def _note(self, run: Run) -> None:
        self._walls[run.case] = run.wall
        exact = run.suite == self._suite or (run.measurement is not None and run.measurement.converged)
        fresh = self._since is None or run.started >= self._since
        if run.status == "ok" and exact and fresh and key(run.environment) == self._key:
            self._done.setdefault(run.case, set()).add(run.forecast.source if run.forecast else None)


@contextmanager
def device_lock(results: Path, slug: str, tick: Callable[[], None], waiting: Callable[[], None]) -> Iterator[None]:
    """One measurement at a time on a device: two at once would disturb each other, and might be the same.

    The kernel gives the lock back when its holder ends, however that ends. tick is called a few times a second while
    another runner has it, after `waiting` once.
    """
    path = results / "runs" / slug / ".lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    announced = False
    try:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not announced:
                    waiting()
                    announced = True
                tick()
                time.sleep(0.1)
            except OSError:
                # A file system without locks: better measured than not.
                break
        yield
    finally:
        os.close(file)
