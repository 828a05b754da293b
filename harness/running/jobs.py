"""Runs in the background, for a web page: started, watched and cancelled through files under `jobs/` of the results.

`jobs/<id>/` holds `state.json` (what `Job` says, replaced whole), `lock` (held by the run while it lives), `cancel`
(there once somebody wants it to stop) and `log` (what the run writes to its stdout and stderr). A page that is loaded
again, or a second one, finds everything there.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from calc.errors import Refused, printable
from calc.reading.files import read_text, write_whole
from calc.spec.fields import DeviceKind, refuse
from harness.cases.case import Case
from harness.environment import PYTHON, child_variables
from harness.record import LONGEST, Record, Run, Text
from harness.running.observer import Cancelled, Observer
from harness.store import RESULTS

State = Literal["starting", "running", "done", "cancelled", "died"]
MOST_JOBS = 20
"""Jobs whose folders stay, the latest of them."""
_ID = re.compile(r"[0-9a-f]{12}")
_children: list[subprocess.Popen[bytes]] = []
"""Runs that this process has started and the kernel still remembers for it."""


class Job(Record):
    """A run in the background. done, total: cases. left: seconds to the end, as estimated. statuses: how many rows
    ended how. case, stage: what it is doing. message: why it died. started, updated: seconds since 1970."""

    id: Text
    suite: Text
    state: State
    started: float
    updated: float
    done: int = 0
    total: int = 0
    left: float = 0.0
    case: Text = ""
    stage: Text = ""
    message: Text = ""
    statuses: dict[str, int] = Field(default_factory=dict)

    @property
    def active(self) -> bool:
        """Whether it goes on."""
        return self.state in ("starting", "running")


def start_background(
    results: Path = RESULTS,
    suite: str = "quick",
    case: str | None = None,
    fresh: bool = False,
    device: DeviceKind | None = None,
    profile_time: float | None = None,
) -> str:
    """Start `python -m harness run` with these options apart from this process; its job's id."""
    _prune(results)
    job = uuid.uuid4().hex[:12]
    folder = results.absolute() / "jobs" / job
    folder.mkdir(parents=True)
    command = [*PYTHON, "-m", "harness", "run", "--suite", suite, "--results", str(results.absolute())]
    command += ["--job", job, *(["--case", case] if case else []), *(["--fresh"] if fresh else [])]
    command += ["--device", device] if device else []
    command += ["--profile-time", str(profile_time)] if profile_time else []
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        # The lock is the open file's, and the run inherits that: it is held from now until the run has ended.
        fcntl.flock(lock, fcntl.LOCK_EX)
        _write(folder, Job(id=job, suite=suite, state="starting", started=time.time(), updated=time.time()))
        with (folder / "log").open("wb") as log:
            _children.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=child_variables(),
                    pass_fds=[lock],
                    start_new_session=True,
                )
            )
    finally:
        os.close(lock)
    return job


def status(job: str, results: Path = RESULTS) -> Job:
    """How a job stands. Errors: Refused where there is no such job."""
    folder = _folder(job, results)
    # In this order: a run that ends in between has written its last state before it let go of the lock.
    alive = _held(folder / "lock")
    found = _read(folder)
    if found.active and not alive:
        return found.model_copy(update={"state": "died", "message": _last_line(folder / "log")})
    return found


def jobs(results: Path = RESULTS) -> list[Job]:
    """All jobs that can be read, the latest first."""
    found: list[Job] = []
    for folder in (results / "jobs").glob("*/"):
        with suppress(Refused):
            found.append(status(folder.name, results))
    return sorted(found, key=lambda job: -job.started)


def _prune(results: Path) -> None:
    """Remove what is known of all but the latest jobs; their rows are among the results."""
    for old in jobs(results)[MOST_JOBS - 1 :]:
        if not old.active:
            shutil.rmtree(results / "jobs" / old.id, ignore_errors=True)


def cancel(job: str, results: Path = RESULTS) -> None:
    """Ask a job to stop; it does within a second, and keeps what is finished. Errors: Refused where there is none."""
    (_folder(job, results) / "cancel").touch()


class JobObserver(Observer):
    """Keeps a job's state while the sweep runs, and ends it when it is cancelled."""

    def __init__(self, job: str, results: Path = RESULTS) -> None:
        self._folder = _folder(job, results)
        self._job = _read(self._folder)
        self._next = 0.0

    def begin(self, cases: Sequence[Case], wall: Callable[[str], float | None]) -> None:
        super().begin(cases, wall)
        self._change(state="running", total=self.total)

    def case(self, index: int, case: Case) -> None:
        super().case(index, case)
        self._change(case=case.id[:LONGEST], stage="")

    def stage(self, text: str) -> None:
        self._change(stage=text)

    def tick(self) -> None:
        if (self._folder / "cancel").exists():
            raise Cancelled
        if self._job.state == "running" and time.monotonic() >= self._next:
            self._change()

    def known(self, index: int, case: Case) -> None:
        super().known(index, case)
        self._change()

    def row(self, index: int, run: Run) -> None:
        super().row(index, run)
        self._change(statuses=dict(Counter(self._job.statuses) + Counter([run.status])))

    def end(self, interrupted: bool) -> None:
        self._change(state="cancelled" if interrupted else "done", case="", stage="")

    def _change(self, **changes: object) -> None:
        self._next = time.monotonic() + 1.0
        progress = {"done": self.done, "left": self.left()} if hasattr(self, "done") else {}
        self._job = self._job.model_copy(update={"updated": time.time(), **progress, **changes})
        _write(self._folder, self._job)


def _folder(job: str, results: Path) -> Path:
    folder = results / "jobs" / job
    if _ID.fullmatch(job) is None or not folder.is_dir():
        raise Refused("job", f"the id of a job under {results / 'jobs'}", job[:40])
    return folder


def _read(folder: Path) -> Job:
    try:
        return Job.model_validate_json(read_text(folder / "state.json"))
    except ValidationError as error:
        raise refuse(error, str(folder / "state.json")) from None


def _write(folder: Path, job: Job) -> None:
    write_whole(folder / "state.json", job.model_dump_json())


def _held(lock: Path) -> bool:
    """Whether a run holds its lock, and so lives. Those who ask share the lock, and are not taken for the run."""
    _children[:] = [child for child in _children if child.poll() is None]
    try:
        file = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def _last_line(log: Path) -> str:
    """The last line of what a run wrote."""
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
        lines = file.read().decode(errors="replace").strip().splitlines()
        return printable(lines[-1])[:1000] if lines else "it wrote nothing"
    return "it left no log"
