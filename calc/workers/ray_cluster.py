"""Chunks on the nodes of a Ray cluster, which starts them again where a node is lost."""

from __future__ import annotations

import os
import pickle
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import Any

from calc.errors import Refused
from calc.workers.finished_parts import PIP
from calc.workers.identity import code, digest
from calc.workers.job import Job, Part, Work, lost

PERIOD = 0.2
"""Seconds between two looks at whether somebody wants to stop."""
RETRIES = 5
"""How often Ray begins a chunk again whose worker or node is gone."""
AHEAD = 2
"""Chunks under way for each core of the cluster, so that none waits for the driver."""
ANSWER = 10.0
"""Seconds within which the head of a cluster takes a connection."""
LOOK = 5.0
"""Seconds for which the number of a cluster's cores is taken to be what it was."""


@contextmanager
def connected(address: str, option: str = "--ray") -> Iterator[Any]:
    """The module `ray`, connected to a cluster that runs; a connection that is there already stays afterwards.

    address: of its head, or `auto` for this machine's. What Ray has to say of nodes goes to stderr: it would print it
    on stdout, which is for results.
    Errors: Refused where no cluster answers, and with the pip command where ray is missing.
    """
    try:
        import ray
    except ModuleNotFoundError as error:
        raise Refused(option, f"the extra cluster: {PIP}", f"no module {error.name}") from None
    # Without it Ray warns of a change to come, which concerns tasks that ask for no GPU.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    own = not ray.is_initialized()
    with redirect_stdout(sys.stderr):
        if own:
            _init(ray, address, option)
        try:
            yield ray
        finally:
            if own:
                ray.shutdown()


def _init(ray: Any, address: str, option: str) -> None:
    try:
        if address != "auto":
            # Ray tries for a minute, and then ends the process.
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), ANSWER).close()
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    except (ConnectionError, ValueError, RuntimeError, OSError, OverflowError) as error:
        why = str(error).strip().splitlines() or ["nothing"]
        raise Refused(option, "the address of a Ray cluster that runs, or auto", f"{address}: {why[0]}") from None


class RayCluster:
    """The cores of a cluster, however many there are at the time."""

    def __init__(self, job: Job, address: str) -> None:
        packed = pickle.dumps((job.work, job.shared))
        self._key = digest(packed)
        self._connection = ExitStack()
        self._ray = self._connection.enter_context(connected(address))
        self._run = self._ray.remote(num_cpus=1, max_retries=RETRIES)(run_chunk)
        self._packed = self._ray.put(packed)
        self._under_way: dict[Any, int] = {}
        self._cores, self._looked = 1, -LOOK

    @property
    def slots(self) -> int:
        if time.monotonic() - self._looked > LOOK:
            self._cores = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
            self._looked = time.monotonic()
        return self._cores * AHEAD

    def submit(self, place: int, chunk: Any) -> None:
        self._under_way[self._run.remote(code(), self._key, self._packed, chunk)] = place

    def finished(self) -> Iterator[tuple[int, Part]]:
        ray = self._ray
        under_way = list(self._under_way)
        ready, _ = ray.wait(under_way, num_returns=1, timeout=PERIOD)
        if ready:
            ready, _ = ray.wait(under_way, num_returns=len(under_way), timeout=0)
        for reference in ready:
            place = self._under_way.pop(reference)
            try:
                yield place, ray.get(reference)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except ray.exceptions.RayError:
                raise lost(place, RETRIES + 1) from None

    def close(self) -> None:
        for reference in self._under_way:
            self._ray.cancel(reference, force=True)
        self._under_way.clear()
        self._connection.close()


_OWN: dict[str, tuple[Work, Any]] = {}
"""In a worker: what it does and what the chunks share, of the job that it worked on last."""


def run_chunk(theirs: str, key: str, packed: bytes, chunk: Any) -> Part:
    """One chunk on a worker. theirs: the digest of the driver's code, which must be this one's.

    Errors: Refused for other code, whose parts would not be those of one answer.
    """
    if theirs != code():
        raise Refused("--ray", "nodes with the same version of this package as here", "another version")
    if key not in _OWN:
        _OWN.clear()
        _OWN[key] = pickle.loads(packed)
    work, shared = _OWN[key]
    return work(shared, chunk)
