"""Settings of the whole suite."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# The suite runs on all cores as it is, and threads of PyTorch's only get in each other's way on tensors this small.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Triton reads it when it is first imported, which torch's compiler may do before a test of ours.
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# A shell starts what runs in the background of a script with Ctrl-C ignored, and every child would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Hundreds of tests start Python, and so do workers: what one compiles, the next reads.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Tables fold where this is set; tests read them whole unless they set it themselves.
os.environ.pop("COLUMNS", None)

# How long an example takes says how busy the machine is. On CI the same examples every time: a failure there must be
# one that a developer can see too.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_collection_finish() -> None:
    """What was collected stays to the end: the garbage collector need not walk through it after every few objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each worker takes a half (or less) of the suite and, once it is through, some of another's: tests that share what
    one of them computed mostly stay together. The usual way deals them out in turn."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getvalue("dist") == "load" else None
