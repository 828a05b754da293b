"""Ranks that torchrun starts on this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness.environment import child_variables
from tests.reference import ROOT

TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
PATIENCE = 240


def torchrun(*arguments: str, ranks: int = 2, nodes: int = 1, port: int = 0) -> subprocess.CompletedProcess[str]:
    """The first node's output; with several nodes, an agent of each on this machine. Fails where one of them does."""
    where = ["--standalone"] if nodes == 1 else ["--nnodes", str(nodes), "--master-addr", "127.0.0.1"]
    agents = []
    for node in range(nodes):
        own = [] if nodes == 1 else ["--node-rank", str(node), "--master-port", str(port)]
        command = [*TORCHRUN, *where, *own, "--nproc-per-node", str(ranks), *arguments]
        variables = {**child_variables(), "OMP_NUM_THREADS": "1"}
        agents.append(subprocess.Popen(command, cwd=ROOT, env=variables, text=True, stdout=-1, stderr=-1))
    try:
        outputs = [agent.communicate(timeout=PATIENCE) for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
    assert [agent.returncode for agent in agents] == [0] * nodes, "\n".join(errors for _, errors in outputs)[-4000:]
    return subprocess.CompletedProcess(agents[0].args, 0, *outputs[0])


def files(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.rglob(pattern))
