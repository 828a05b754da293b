"""A profile measured on the way to something else, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from calc.errors import Refused
from harness.environment import PYTHON, child_variables, cpu_slug, likely_slug
from harness.running.observer import Observer
from harness.running.process import die_with_parent

_TICK = 0.2


def profile_first(seconds: float, device: str | None, results: Path, observer: Observer) -> None:
    """Run `python -m harness profile` in a process that ends with this one, and wait until its profile is there.

    seconds: it may take. observer: is told of it, and may end it. Errors: Refused where no profile came of it.
    """
    command = [*PYTHON, "-m", "harness.profiling.beforehand", str(os.getpid()), "--results", str(results)]
    command += ["--time", str(seconds)]
    command += ["--device", device] if device else []
    observer.stage(f"profiling this machine, {seconds:.0f} s")
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=child_variables())
    try:
        while True:
            observer.tick()
            try:
                status = child.wait(_TICK)
                break
            except subprocess.TimeoutExpired:
                continue
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait()
    own = results / "profiles" / f"{cpu_slug() if device == 'cpu' else likely_slug()}.json"
    if status and not own.is_file():
        raise Refused("--profile-time", "a profile of this machine", f"exit status {status} of the profiler")


def main() -> None:
    """The child: the process id of its parent, then the options of `python -m harness profile`."""
    from harness.__main__ import main as command

    die_with_parent(int(sys.argv[1]))
    sys.argv[1] = "profile"
    command()


if __name__ == "__main__":
    main()
