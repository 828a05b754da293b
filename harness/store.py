"""Results on disk: `runs/<device>/<day>.jsonl` under a folder, one line a run, only ever appended to.

A writer holds a lock on the file, begins with a newline where the file does not end in one (so that what a full disk
or a kill has torn stays one bad line and takes no other with it), writes the whole line at once and waits until it is
on the disk. A reader passes over what is not a run, and says where.

A line ends in a digest of the rest of it: one that was torn where it still parses, or edited, is noticed. Lines from
before there were digests have none, and are read.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from calc.errors import Refused, printable
from calc.spec.fields import refuse
from harness.record import Run

RESULTS = Path("results")
"""Where results are kept, under the folder that one works in."""
MAX_LINE = 2**20
"""Bytes of the longest line that is read."""
_CHECK = re.compile(rb',"check":"([^"]*)"}\s*\Z')


class Fault(NamedTuple):
    """A line that is no run. line: counted from 1."""

    path: Path
    line: int
    why: str

    def __str__(self) -> str:
        return printable(f"{self.path}:{self.line}: {self.why}")


def append(run: Run, results: Path = RESULTS) -> Path:
    """Add one run, and return once it is on the disk. Errors: OSError where it cannot be written whole."""
    path = results / "runs" / run.environment.slug / f"{run.started[:10]}.jsonl"
    append_lines(path, with_check(run.model_dump_json().encode()) + b"\n")
    return path


def with_check(document: bytes) -> bytes:
    """A JSON object with its own digest as the last value."""
    return document[:-1] + b',"check":"' + _digest(document) + b'"}'


def is_checked(line: bytes) -> bool:
    """Whether a line has a digest."""
    return _CHECK.search(line) is not None


def _digest(document: bytes) -> bytes:
    return hashlib.sha256(document).hexdigest()[:16].encode()


def append_lines(path: Path, lines: bytes) -> None:
    """Add whole lines at once, behind a newline where the file does not end in one; return once they are on the disk.

    Errors: OSError where they cannot be written whole.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    there = path.exists()
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        # Where a file system has no locks, one write to an appended file still keeps lines whole.
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        size = os.fstat(file).st_size
        torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        _write(file, b"\n" + lines if torn else lines)
        os.fsync(file)
    finally:
        os.close(file)
    if not there:
        # A new file, and a new folder, is only safe when the folder that names it is on the disk too.
        _sync_folder(path.parent)
        _sync_folder(path.parent.parent)


def _write(file: int, data: bytes) -> None:
    """All of `data`; a disk that fills up takes a part and refuses the rest."""
    while data:
        data = data[os.write(file, data) :]


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def files(results: Path = RESULTS, slug: str | None = None) -> list[Path]:
    """The files of runs, of all devices or of one, oldest day first within a device."""
    return sorted((results / "runs").glob(f"{slug or '*'}/*.jsonl"))


def scan(results: Path = RESULTS, slug: str | None = None) -> tuple[list[Run], list[Fault]]:
    """Every run that can be read, and every line that cannot, in the order of the files.

    A run that stands there twice, as after folders were merged, is taken once.
    """
    runs: dict[str, Run] = {}
    faults: list[Fault] = []
    for path in files(results, slug):
        found, bad = scan_file(path)
        for run in found:
            runs.setdefault(run.run, run)
        faults += bad
    return list(runs.values()), faults


def read_runs(
    results: Path = RESULTS, slug: str | None = None, on_fault: Callable[[Fault], None] | None = None
) -> list[Run]:
    """Every run that can be read; `on_fault` is told of each line that cannot."""
    runs, faults = scan(results, slug)
    if on_fault is not None:
        for fault in faults:
            on_fault(fault)
    return runs


def scan_file(path: Path) -> tuple[list[Run], list[Fault]]:
    """The runs and the bad lines of one file."""
    runs: list[Run] = []
    faults: list[Fault] = []
    try:
        for number, line in lines(path):
            try:
                runs.append(_parse(line))
            except Refused as refusal:
                faults.append(Fault(path, number, str(refusal)))
    except OSError as error:
        faults.append(Fault(path, 0, error.strerror or str(error)))
    return runs, faults


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines that are not empty, with their numbers; of a line that is too long no more than its beginning."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE + 1):
            number += 1
            rest = line
            while len(rest) > MAX_LINE and not rest.endswith(b"\n"):
                rest = file.readline(MAX_LINE + 1)
            if line.strip():
                yield number, line


def _parse(line: bytes) -> Run:
    if len(line) > MAX_LINE:
        raise Refused("run", f"a line of at most {MAX_LINE:,} bytes", "more")
    if check := _CHECK.search(line):
        line = line[: check.start()] + b"}"
        if check[1] != _digest(line):
            raise Refused("run", f"a line whose digest is {_digest(line).decode()}", "another: it was torn or edited")
    try:
        return Run.model_validate_json(line)
    except ValidationError as error:
        if error.errors(include_url=False)[0]["type"] == "json_invalid":
            raise Refused(
                "run", "a JSON object on one line", f"a torn or foreign line of {len(line):,} bytes"
            ) from None
        raise refuse(error, "run") from None
