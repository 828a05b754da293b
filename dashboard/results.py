"""The folder of results that the dashboard reads and writes, and what is in it, read again only where it has changed.

It is the only folder that a visitor's choice ever leads to, and only by names that were found in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from calc.errors import Refused
from calc.time.device.profile import Profile, read_profile
from harness.record import Run
from harness.store import RESULTS, Fault, files, scan_file

VARIABLE = "ENVELOPE_RESULTS"
"""Names the folder of results; without it, it is `results` under the folder that the server was started in."""


class Results(NamedTuple):
    """All runs that can be read, each once, and the lines that are none."""

    runs: tuple[Run, ...]
    faults: tuple[Fault, ...]


_read_files: dict[Path, tuple[tuple[int, int], list[Run], list[Fault]]] = {}
_lock = Lock()


def folder() -> Path:
    """Where results are."""
    return Path(os.environ.get(VARIABLE) or RESULTS)


def load() -> Results:
    """What is there now. A file is read again once its size or its time of change is another."""
    with _lock:
        paths = files(folder())
        runs: dict[str, Run] = {}
        faults: list[Fault] = []
        for path in paths:
            found, bad = _file(path)
            for run in found:
                runs.setdefault(run.run, run)
            faults += bad
        for gone in _read_files.keys() - set(paths):
            del _read_files[gone]
    return Results(tuple(runs.values()), tuple(faults))


def _file(path: Path) -> tuple[list[Run], list[Fault]]:
    try:
        now = path.stat()
    except OSError as error:
        return [], [Fault(path, 0, error.strerror or str(error))]
    stamp = (now.st_size, now.st_mtime_ns)
    if path not in _read_files or _read_files[path][0] != stamp:
        _read_files[path] = (stamp, *scan_file(path))
    return _read_files[path][1], _read_files[path][2]


def profiles() -> list[str]:
    """The devices that have a profile of their own among the results."""
    return sorted(path.stem for path in (folder() / "profiles").glob("*.json") if path.is_file())


def profile_path(slug: str) -> Path:
    """The profile of a device. Errors: Refused for one that has none."""
    if slug not in profiles():
        raise Refused("profile", f"one of {', '.join(profiles()) or 'none: measure one'}", slug[:80])
    return folder() / "profiles" / f"{slug}.json"


def profile(slug: str) -> Profile:
    """The profile of a device. Errors: Refused for one that has none, or none that can be read."""
    return read_profile(profile_path(slug))


def option(name: str = "--results") -> str:
    """The words that name this folder on a command line; nothing for the usual one."""
    import shlex

    return "" if folder().resolve() == RESULTS.resolve() else f" {name} {shlex.quote(str(folder()))}"


def distinct(values: Iterable[str | None]) -> list[str]:
    """Each value once, sorted."""
    return sorted({value for value in values if value})
