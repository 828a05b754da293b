"""A profile of this machine as short as one can be."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.reference import ROOT


def measure_short_profile(results: Path) -> Path:
    """Measure one of fp32 into the folder `results`; its file. A busy machine takes longer for the least of it.

    In a process of its own: measuring changes how a process keeps memory. Exit status 1 says that times moved, as where
    a machine has other work: what was found is written all the same, and is enough to forecast with.
    """
    command = [sys.executable, "-m", "harness", "profile", "--device", "cpu", "--dtypes", "fp32", "--json"]
    for seconds in (20, 80, 320):
        words = [*command, "--time", str(seconds), "--results", str(results)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        if "found too few" not in done.stderr:
            break
    assert done.returncode == 0 or "is off by" in done.stderr, done.stderr
    return Path(json.loads(done.stdout)["profile"])
