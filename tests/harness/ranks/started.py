"""Ranks that torchrun starts on this machine."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from harness.environment import child_variables
from tests.reference import ROOT

TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
BRIEFLY = ("-m", "tests.harness.ranks.briefly")
"""In place of `-m harness`."""
PATIENCE = 240


def torchrun(*arguments: str, ranks: int = 2, patience: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    """What ranks of one node print. Fails where one of them does, or is not done after so many seconds."""
    return _outputs([["--standalone", "--nproc-per-node", str(ranks), *arguments]], patience)[0]


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


def killed(*arguments: str, after: Callable[[set[int], str], bool], log: Path) -> set[int]:
    """Ranks of an agent that was killed as soon as `after` says so of the ranks that it has started and what they
    printed: those that still run once all had time to end."""
    command = [*TORCHRUN, "--standalone", "--nproc-per-node", "2", *arguments]
    with log.open("w") as printed:
        agent = subprocess.Popen(command, cwd=ROOT, env=child_variables(), stdout=printed, stderr=printed)
    children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children")
    ranks: set[int] = set()
    deadline = time.monotonic() + PATIENCE
    while not after(ranks, log.read_text()):
        assert agent.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        ranks |= {int(each) for each in children.read_text().split()}
        time.sleep(0.005)
    agent.kill()
    agent.wait()
    while (left := {each for each in ranks if _runs(each)}) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _runs(pid: int) -> bool:
    """Whether a process is there and has not ended: nobody may be left who takes note of its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _outputs(starts: list[list[str]], patience: float = PATIENCE) -> list[subprocess.CompletedProcess[str]]:
    agents = []
    for start in starts:
        command = [*TORCHRUN, *start]
        variables = {**child_variables(), "OMP_NUM_THREADS": "1"}
        agents.append(subprocess.Popen(command, cwd=ROOT, env=variables, text=True, stdout=-1, stderr=-1))
    try:
        outputs = [agent.communicate(timeout=patience) for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
            agent.communicate()
    assert not any(agent.returncode for agent in agents), "\n".join(errors for _, errors in outputs)[-4000:]
    return [subprocess.CompletedProcess(agent.args, 0, *each) for agent, each in zip(agents, outputs, strict=True)]


def files(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.rglob(pattern))
