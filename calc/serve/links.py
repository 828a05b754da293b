"""What leads between the ranks of a server: those that sum within a stage of a pipeline, and one stage and the next."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from calc.errors import Refused
from calc.serve.constants import Fitted, greatest, least
from calc.spec.hardware import Device
from calc.time.cluster.crossing import carried, waiting
from calc.time.cluster.links import adapter, domain_of, hosted_share, joins_node, node_of
from calc.time.models.collective import passes

HOSTED_BEGINS = 1.5e-5
"""Seconds that such sums take besides: 12 us for 131 kB, 44 us for 1 MB, 244 us for 8.4 MB on two RTX PRO 6000, 75 us
for 1 MB on two L40S (the same tables, 16 bits)."""


class Way(NamedTuple):
    """bandwidth: bytes a second of one GPU, one way; infinite where nothing is sent. begins: seconds."""

    bandwidth: Any
    begins: Any


NOWHERE = Way(math.inf, 0.0)
"""Of who has nobody to talk to."""


def between_ranks(device: Device, ranks: int, fitted: Fitted, linked: Any, longer: Any = 1.0) -> Way:
    """The way of a sum over so many ranks. linked: seconds in which one over two of them with links begins, as fitted.
    longer: how many times as long as a sum something else takes over fast links; what a host or an adapter bounds is
    bound by these alone.

    Beyond a domain ranks hand their parts to one another over fast links while each one's card carries its part to the
    other domains, as `calc.time.cluster.crossing` has it, and begin as that says.

    Errors: Refused for several of a device whose links are not known.
    """
    if ranks == 1:
        return NOWHERE
    joined = domain_of(device)
    each = max(some for some in range(1, joined + 1) if ranks % some == 0)
    fast = NOWHERE if each == 1 else _within(device, fitted, linked, "--tp", ranks, each)
    begins = fast.begins * (1 + fitted.of("ranks") * (each - 1))
    if device.link_one_way is not None:
        fast, begins = fast._replace(bandwidth=fast.bandwidth / longer), begins * longer
    if ranks <= joined:
        return fast._replace(begins=begins)
    beyond = _beyond(device, fitted, linked, ranks, ranks).bandwidth
    card = beyond * passes("all_reduce", ranks) / carried("all_reduce", ranks, each)
    return Way(least(card, fast.bandwidth), greatest(begins, float(waiting("all_reduce", ranks, each))))


def between_stages(device: Device, wide: int, stages: int, fitted: Fitted, linked: Any) -> Way:
    """The mean way from a stage of `wide` GPUs to the next: stages stand one behind another, as many of them in a
    domain of fast links as fit there whole.

    Errors: Refused for several of a device whose links are not known.
    """
    if stages == 1:
        return NOWHERE
    hops, joined = stages - 1, max(domain_of(device) // wide, 1)
    far = hops // joined
    near = hops - far
    ways = [(far, _beyond(device, fitted, linked, wide * stages))] * (far > 0)
    ways += [(near, _within(device, fitted, linked, "--pp", stages))] * (near > 0)
    seconds = sum(count / way.bandwidth for count, way in ways)
    return Way(hops / seconds, sum(count * way.begins for count, way in ways) / hops)


def between_servers(device: Device, gpus: int, fitted: Fitted) -> Any:
    """Bytes a second, one way, of a GPU of one server to one of another: over fast links where one domain holds all
    the GPUs of both, else by its adapter.

    Errors: Refused for several of a device whose links are not known.
    """
    if gpus > domain_of(device):
        return _beyond(device, fitted, 0.0, gpus).bandwidth
    return _within(device, fitted, 0.0, "--gpus", gpus).bandwidth


def _within(device: Device, fitted: Fitted, linked: Any, option: str, found: int, summing: int = 2) -> Way:
    """Over the device's own links, or through its host where it has none. found: what `option` says. summing: GPUs that
    sum; of those that hand something on, two."""
    if device.link_one_way is not None:
        return Way(float(device.link_one_way) * fitted.share("link"), linked)
    hosted = hosted_share(device, summing)
    if hosted is None:
        raise Refused(option, f"1 on {device.name}, whose links are not known", found)
    return Way(hosted, greatest(linked, HOSTED_BEGINS))


def _beyond(device: Device, fitted: Fitted, linked: Any, gpus: int, summing: int = 2) -> Way:
    """Beyond the fast links' domain: by one GPU's adapter, or through the host where a node has all the GPUs. Cards
    whose links join fewer than a node has reach no adapter faster than that."""
    begins = linked if device.link_one_way is not None else greatest(linked, HOSTED_BEGINS)
    card = Way(adapter(device.name) * fitted.share("network"), begins * fitted.of("beyond"))
    hosted = None if joins_node(device) else hosted_share(device, summing)
    if hosted is None:
        return card
    if gpus <= node_of(device.name):
        return Way(hosted, greatest(linked, HOSTED_BEGINS))
    return card._replace(bandwidth=least(card.bandwidth, hosted))
