"""Time of a collective whose ranks do not all stand within one domain of fast links.

Ranks of a group that stand in one domain (`near` of them) hand their part of the bytes to one another over the fast
links, and each carries its part to the other domains over its own share of the network cards, as NCCL's rings over
rails and hierarchical collectives do. Both go on at once, so that the slower of the two is what bytes wait for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from calc.reading.files import parse_toml, read_text
from calc.spec.hardware import Device
from calc.time.device.priors import factors, scaled
from calc.time.models.collective import EFFICIENCY, passes

COLLECTIVES = Path(__file__).parents[2] / "data" / "collectives.toml"


@cache
def constants() -> dict[str, Any]:
    """The tables of calc/data/collectives.toml."""
    return parse_toml(read_text(COLLECTIVES), COLLECTIVES.name)


@dataclass(frozen=True)
class Crossing:
    """One collective `op` beyond a domain. share: bytes/s of one GPU to other domains, link: within its own, both in
    one direction and as their makers print them; None where a domain is one GPU."""

    op: str
    share: float
    link: float | None

    def seconds(self, bytes: Any, ranks: Any, near: Any, once: Any = 1.0) -> Any:
        """Seconds of the collective of `bytes` (as nccl-tests count them) among `ranks` GPUs, of which `near` stand in
        each domain. once: as in `Send`. Numbers or arrays."""
        table = constants()
        share = self.share * table["across"]["efficiency"]
        link = (self.link or self.share) * EFFICIENCY
        if self.op == "send":
            return bytes / share + table["steps"]["start"]
        if self.op == "all_to_all":
            across, within = once * bytes * (1 - near / ranks) / share, bytes * (near - 1) / ranks / link
        else:
            across = bytes * carried(self.op, ranks, near) / share
            within = bytes * passes(self.op, ranks) / link * (near > 1)
        return _larger(across, within) + waiting(self.op, ranks, near)

    def interval(self, level: float) -> tuple[float, float]:
        """Factors (low, high) on a predicted time between which `level` of measured times lie."""
        return scaled(factors("network"), level)


def cores_left(device: Device | None) -> float:
    """The part of a device's cores that a collective leaves to what computes beside it; all of them where none is known
    to be held: on one that has no fast links of its own, or is no GPU of the library."""
    beside = constants()["beside"]
    if device is None or device.cores is None or device.link is None or device.vendor not in beside["vendors"]:
        return 1.0
    return 1 - min(beside["cores"] / device.cores.value, 1)


def carried(op: str, ranks: Any, near: Any) -> Any:
    """Bytes that a GPU's own card carries of each byte of a collective: its part of what leaves the domain."""
    far = ranks / near
    return passes(op, ranks) * ranks / (ranks - 1) * (far - 1) / far / near


def waiting(op: str, ranks: Any, near: Any) -> Any:
    """Seconds of the smallest message: a ring's steps, or where they are fewer the levels of a tree."""
    import numpy as np

    steps, far = constants()["steps"], ranks / near
    if op == "all_to_all":
        return steps["start"] + (ranks - near) * constants()["direct"]["peer"]
    rounds = 2 if op == "all_reduce" else 1
    ring = rounds * ((far - 1) * steps["far"] + (ranks - far) * steps["near"])
    tree = 2 * (np.log2(far) * steps["tree"] + (near - 1) * steps["near"])
    return steps["start"] + (np.minimum(ring, tree) if op == "all_reduce" else ring)


def _larger(a: Any, b: Any) -> Any:
    import numpy as np

    return np.maximum(a, b)
