"""Several processes as one group: the process that measures is rank 0, and starts the others.

The others run the same execution over and over; each begins by waiting for rank 0 in its first collective, so that rank
0's time is that of the whole group. They are started with the variables that torchrun sets, and end with their parent.
`python -m harness.distributed PARENT KIND PARAMS DEVICE` is such a rank.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

from harness.environment import PYTHON, child_variables

Device = Literal["cuda", "cpu"]
PATIENCE = timedelta(minutes=5)
"""How long a rank waits for the others."""


class Group:
    """Rank 0's hold on the group: joins on entering, starts the other ranks, and ends them on `close`."""

    def __init__(self, kind: str, params: dict[str, Any], ranks: int, device: Device) -> None:
        import torch

        variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": str(ranks)}
        command = [*PYTHON, "-m", "harness.distributed", str(os.getpid()), kind, json.dumps(params), device]
        self._children: list[subprocess.Popen[bytes]] = []
        self._threads = torch.get_num_threads()
        try:
            for rank in range(1, ranks):
                own = {**child_variables(), **variables, "RANK": str(rank), "LOCAL_RANK": str(rank)}
                self._children.append(subprocess.Popen(command, env=own, stdout=subprocess.DEVNULL))
            join(0, ranks, device, variables)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the other ranks, and leave the group."""
        import torch
        import torch.distributed as dist

        for child in self._children:
            child.kill()
            child.wait()
        torch.set_num_threads(self._threads)
        if dist.is_initialized():
            dist.destroy_process_group()


def join(rank: int, ranks: int, device: Device, variables: dict[str, str]) -> None:
    """Become `rank` of the group, over NCCL on GPUs and gloo elsewhere, where ranks share the cores."""
    import torch
    import torch.distributed as dist

    if device == "cuda":
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(max(1, torch.get_num_threads() // ranks))
    address = f"tcp://{variables['MASTER_ADDR']}:{variables['MASTER_PORT']}"
    backend = "nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=address, rank=rank, world_size=ranks, timeout=PATIENCE)


def serve(parent: int, kind: str, params: dict[str, Any], device: Device) -> None:
    """Be one of the other ranks until rank 0, the process `parent`, is gone, however early that is."""
    from harness.running.process import die_with_parent

    die_with_parent(parent)
    from harness.cases import make

    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    join(rank, ranks, device, dict(os.environ))
    case: Any = make(kind, params)
    body: Callable[[], Any] = case.of_rank(rank, device)[0]
    while True:
        body()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), sys.argv[4])  # pyright: ignore[reportArgumentType]
