"""Ctrl-C in a terminal, which all processes of a command get: workers that are only starting do not hear it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.reference import ROOT
from tests.waiting import PATIENCE

SCRIPT = """
import os, sys, time
from dataclasses import replace
from pathlib import Path

log = Path(sys.argv[1])
if __name__ == "__mp_main__":
    (log / f"started-{os.getpid()}").touch()
    time.sleep(3)

from calc.workers.workers import Workers
from tests.workers.work import job

if __name__ == "__main__":
    asked = job(log, seconds=60)
    try:
        list(Workers(2).results(replace(asked, shared=(asked.shared, bytes(2**20)))))
    except KeyboardInterrupt:
        sys.exit(130)
"""
"""Workers import it first, for three seconds; what they share is more than a pipe holds."""


def test_workers_that_are_starting_do_not_hear_it(tmp_path: Path) -> None:
    """The first Ctrl-C ends the command, and no worker says anything."""
    script, log = tmp_path / "script.py", tmp_path / "log"
    script.write_text(SCRIPT)
    log.mkdir()
    made = subprocess.Popen(
        [sys.executable, script, log],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    end = time.monotonic() + PATIENCE
    while not list(log.glob("started-*")):
        assert time.monotonic() < end
        assert made.poll() is None
        time.sleep(0.005)
    os.killpg(made.pid, signal.SIGINT)
    try:
        out, err = made.communicate(timeout=PATIENCE)
    finally:
        if made.poll() is None:
            os.killpg(made.pid, signal.SIGKILL)
    assert (made.returncode, out, err) == (130, "", "")
