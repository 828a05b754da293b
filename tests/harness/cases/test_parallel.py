"""Two processes over gloo: collectives give what they should, and spread steps what one process gives."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("torch")

from harness.cases import make
from harness.distributed import PATIENCE
from tests.reference import ROOT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "params"),
    [
        *(("collective", {"op": each, "nbytes": 8192}) for each in ("all_reduce", "all_gather", "reduce_scatter")),
        *(("parallel_training", {"model": "tiny-gpt", "seq": 12, "strategy": each}) for each in ("ddp", "fsdp")),
    ],
)
def test_two_processes(kind: str, params: dict[str, Any]) -> None:
    ready = make(kind, params).ready("cpu")
    assert ready.close is not None
    assert ready.check is not None
    try:
        assert ready.check() <= 1e-5
        ready.run()
    finally:
        ready.close()


@pytest.mark.slow
def test_a_rank_whose_parent_is_gone_before_it_looks_ends_too() -> None:
    """It would else wait for the others of its group, for minutes."""
    killed = """
import os
from harness import distributed
distributed.join = lambda *_: os.kill(os.getpid(), 9)
distributed.Group("collective", {"op": "all_reduce", "nbytes": 8192}, 2, "cpu")
"""
    with subprocess.Popen([sys.executable, "-c", killed], cwd=ROOT, stderr=subprocess.PIPE) as parent:
        # The rank holds the pipe for as long as it lives.
        _, errors = parent.communicate(timeout=PATIENCE.total_seconds() / 2)
    assert (parent.returncode, errors) == (-signal.SIGKILL, b"")
