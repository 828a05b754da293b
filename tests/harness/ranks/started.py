"""Ranks that torchrun starts on this machine."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from harness.environment import child_variables
from tests.reference import ROOT

TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
PATIENCE = 240


def torchrun(*arguments: str, ranks: int = 2) -> subprocess.CompletedProcess[str]:
    """What ranks of one node print. Fails where one of them does."""
    return _outputs([["--standalone", "--nproc-per-node", str(ranks), *arguments]])[0]


def on_two_nodes(*arguments: str, ranks: int = 2, numbered: bool) -> list[str]:
    """What each of two agents on this machine prints, with so many ranks each. numbered: nodes are told their numbers,
    as on Kubernetes; else they meet and agree on them, as under Slurm."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    if numbered:
        ways = [["--node-rank", str(node), "--master-addr", "127.0.0.1", "--master-port", str(port)] for node in (0, 1)]
    else:
        ways = [["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "7"]] * 2
    starts = [["--nnodes", "2", *way, "--nproc-per-node", str(ranks), *arguments] for way in ways]
    return [each.stdout for each in _outputs(starts)]


def _outputs(starts: list[list[str]]) -> list[subprocess.CompletedProcess[str]]:
    agents = []
    for start in starts:
        command = [*TORCHRUN, *start]
        variables = {**child_variables(), "OMP_NUM_THREADS": "1"}
        agents.append(subprocess.Popen(command, cwd=ROOT, env=variables, text=True, stdout=-1, stderr=-1))
    try:
        outputs = [agent.communicate(timeout=PATIENCE) for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
    assert not any(agent.returncode for agent in agents), "\n".join(errors for _, errors in outputs)[-4000:]
    return [subprocess.CompletedProcess(agent.args, 0, *each) for agent, each in zip(agents, outputs, strict=True)]


def files(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.rglob(pattern))
