"""Ctrl-C in a real process: what was found until then is printed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time

import pytest

from tests.reference import ROOT
from tests.waiting import PATIENCE

ASKED = ("llama-3-70b", "--cluster", "dgx-h100", "--gpus", "64..4096", "--seq", "8192", "--global-batch", "12288seq")


@pytest.mark.slow
def test_what_was_found_is_printed() -> None:
    """The interrupt comes once plans have been timed, long before all of them are."""
    command = [sys.executable, "-m", "calc", "plan", *ASKED, "--stack", "megatron-core", "--top", "3"]
    made = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert made.stderr is not None
    end = time.monotonic() + PATIENCE
    seen = ""
    while not re.search(r"pieces of the search: [1-9]", seen):
        assert time.monotonic() < end
        seen += made.stderr.readline()
    made.send_signal(signal.SIGINT)
    out, _ = made.communicate(timeout=PATIENCE)
    assert made.returncode == 130
    assert "interrupted: these are the best until then" in out
    assert "MFU" in out
