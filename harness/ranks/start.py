"""What torchrun tells a rank, and joining the others."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from calc.errors import Refused
from calc.spec.fields import DeviceKind
from harness.running.process import die_with_parent

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
PATIENCE = timedelta(minutes=5)
"""How long a rank waits for the others."""
ANSWERING = 30.0
"""Seconds in which a store answers, on however busy a network."""
MOST = 2**16
FREED = 31 * 2**20
"""Bytes; a little less than the most that glibc keeps (mallopt, M_MMAP_THRESHOLD)."""
START = "torchrun --nproc-per-node RANKS -m harness run --suite collectives|parallel"


@dataclass(frozen=True)
class Place:
    """One rank of a job. rank: of `ranks`, counted from 0; local: of those `near` that share its node."""

    rank: int
    ranks: int
    local: int
    near: int

    @property
    def first(self) -> bool:
        """Whether it is the one that predicts and writes."""
        return self.rank == 0


def place_of() -> Place | None:
    """The place of this process by the variables that torchrun sets; None where it was not started so.

    Errors: Refused for variables that are no place, and for one rank alone.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    found = []
    for name in VARIABLES:
        text = os.environ.get(name, "")
        if not text.isdecimal() or int(text) > MOST:
            raise Refused(name, "a number, as torchrun sets it", text or "nothing")
        found.append(int(text))
    rank, ranks, local, near = found
    if not (rank < ranks and local < near <= ranks):
        raise Refused("RANK", "one of WORLD_SIZE ranks", f"{rank} of {ranks}, {local} of {near} on this node")
    if ranks < 2:
        raise Refused("--nproc-per-node", f"at least two ranks in all, as in {START}", "one")
    return Place(rank, ranks, local, near)


def end_with_agent() -> None:
    """Have this rank end when the agent that started it does, however that ends; other agents end theirs.

    An agent that was killed while this process started is known by its store: it answers before the first rank starts.
    Errors: Refused where it does not.
    """
    die_with_parent(os.getppid())
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return
    address, port = (os.environ.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT"))
    if not port.isdecimal() or int(port) >= MOST:
        raise Refused("MASTER_PORT", "a number, as torchrun sets it", port or "nothing")
    try:
        socket.create_connection((address, int(port)), timeout=ANSWERING).close()
    except OSError as error:
        raise Refused("MASTER_ADDR", "the store of the agent that started this rank", f"{address}: {error}") from None


@contextmanager
def joined(place: Place, device: DeviceKind) -> Iterator[None]:
    """A member of the group, over NCCL on GPUs and gloo elsewhere, where the ranks of a node share its cores."""
    import torch
    import torch.distributed as dist

    if device == "cuda":
        torch.cuda.set_device(place.local)
    else:
        torch.set_num_threads(max(1, torch.get_num_threads() // place.near))
        # glibc maps anew what is larger than anything freed before, up to 32 MiB: without this the first of each size,
        # gloo's own buffers among them, would take pages from the kernel, and later ones not.
        torch.empty(FREED // 4)
    options: dict[str, Any] = {"device_id": torch.device("cuda", place.local)} if device == "cuda" else {}
    dist.init_process_group("nccl" if device == "cuda" else "gloo", timeout=PATIENCE, **options)
    try:
        yield
    finally:
        dist.destroy_process_group()
