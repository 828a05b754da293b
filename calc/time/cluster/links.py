"""Which links the ranks of a run have between them."""

from __future__ import annotations

import math
from typing import NamedTuple

from calc.errors import Refused
from calc.sizes import Size, maximum, minimum
from calc.spec.clusters import adapter_of, machine_of
from calc.spec.hardware import Device
from calc.spec.run import Run
from calc.time.cluster.crossing import constants
from calc.time.device.priors import priors


class Links(NamedTuple):
    """domain: GPUs that reach one another by the device's own links. share: bytes/s of one GPU to all others, None
    where nothing is known of what leads there; known to lead to so many GPUs as `reach` says."""

    domain: int
    share: float | None
    reach: float = math.inf


def links_of(run: Run, device: Device | None) -> Links:
    """Those of its cluster; without one, domains are the device's and `network` is each GPU's share beyond. Cards whose
    links join fewer than a node has reach all others through the host, and no faster."""
    if run.cluster is not None:
        return Links(run.cluster.domain, run.network if run.network is not None else run.cluster.share)
    joined = domain_of(device)
    if device is None or joins_node(device):
        return Links(joined, run.network)
    node = node_of(device.name)
    hosted = hosted_share(device, node)
    if hosted is not None:
        hosted /= constants()["across"]["efficiency"]  # what sums reach, where a card's rate is what makers print
    if run.network is None:
        return Links(joined, hosted, node)
    return Links(joined, run.network if hosted is None else min(run.network, hosted))


def domain_of(device: Device | None) -> int:
    """GPUs that the fast links of a device join: as its entry in the catalogue says, else a usual node."""
    said = None if device is None else device.domain
    return priors()["network"]["node"] if said is None else said.value


def node_of(device: str) -> int:
    """GPUs of a machine of such devices: the fewest of the known clusters of them, else the usual."""
    return machine_of(device) or priors()["network"]["node"]


def joins_node(device: Device) -> bool:
    """Whether the fast links of a device join all GPUs of a machine; where they do not, as a bridge of two cards, the
    others are reached through the host."""
    return device.domain is None or device.domain.value >= node_of(device.name)


def hosted_share(device: Device, gpus: int) -> float | None:
    """Bytes a second, one way, that each of so many GPUs of a node reaches the others with through the host; None where
    it is not known what leads there."""
    if device.host is None:
        return None
    table = constants()["hosted"]
    parts = table.get(device.name, table)
    known = [int(ranks) for ranks in parts if ranks.isdigit()]
    ranks = min((each for each in known if each >= gpus), default=max(known))
    return float(device.host.value) / 2 * parts[str(ranks)]


def adapter(device: str) -> float:
    """Bytes a second, one way, of a GPU to those beyond its domain, where nobody says which cluster it stands in."""
    return adapter_of(device) or priors()["network"]["adapter"]


def near_of(links: Links, ranks: Size, stride: Size) -> Size:
    """Of a group of ranks that stand `stride` GPUs apart, those in one domain: a divisor of all."""
    return maximum(minimum(links.domain / stride // 1, ranks), 1)


def refuse_unknown(path: str, op: str, span: Size, links: Links) -> None:
    """Errors: Refused for a group that nothing is known to lead across."""
    known = f"a domain of {links.domain}" if links.share is None else f"a node of {links.reach}"
    expected = f"the rate of one GPU beyond {known} GPUs, such as 50GB/s, or --cluster NAME"
    raise Refused("--network", expected, f"none, and {path}: {op} over {span} GPUs")
