"""Curves of collectives, measured among the ranks of a job, as a cluster's description of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from calc.spec.cluster import Cluster, Measured
from calc.spec.clusters import read_clusters
from calc.time.cluster.crossing import constants
from calc.time.models.collective import passes
from harness.cases.case import Device
from harness.cases.collectives import collective
from harness.measuring.limits import catalogued
from harness.ranks.start import Place
from harness.ranks.timing import EFFORT, measure
from harness.record import Environment

PAGE = "https://docs.pytorch.org/docs/stable/elastic/run.html"
"""Of torchrun, which started what was measured."""
SMALLEST, STEPS = 2**12, 8
"""Bytes of a curve's first point for each rank, and how many there are: each is four times the one before."""
STEPS_CPU = 6


def calibrate(place: Place, device: Device, ops: Sequence[str], tell: Callable[[str], None]) -> tuple[Measured, ...]:
    """A curve of some collectives among all ranks and, where there are several nodes, within one; every rank calls it.

    Within nodes all of them measure at once, as all of them work in a step.
    """
    import torch.distributed as dist

    steps = STEPS if device == "cuda" else STEPS_CPU
    found = [_curve(op, steps, place.rank, place.ranks, place.near, device, None, tell) for op in ops]
    if 1 < place.near < place.ranks:
        mine, nodes = None, place.ranks // place.near
        for node in range(nodes):
            members = list(range(node * place.near, (node + 1) * place.near))
            group = dist.new_group(members)
            mine = group if place.rank in members else mine
        own = place.rank % place.near
        found += [_curve(op, steps, own, place.near, place.near, device, mine, tell) for op in ops]
    return tuple(found)


def _curve(
    op: Any, steps: int, rank: int, ranks: int, near: int, device: Device, group: object, tell: Callable[[str], None]
) -> Measured:
    sizes = [SMALLEST * ranks * 4**n for n in range(steps)]
    seconds = []
    for nbytes in sizes:
        tell(f"calibrating {op} of {nbytes:,} bytes among {ranks}")
        run, _ = collective(op, nbytes // 4, rank, ranks, device, group)
        seconds.append(measure(run, device, EFFORT).seconds)
    # A larger message is never faster; a time above that of larger ones was a wait for something else.
    for place in range(len(seconds) - 2, -1, -1):
        seconds[place] = min(seconds[place], seconds[place + 1])
    return Measured(op=op, ranks=ranks, near=min(near, ranks), sizes=tuple(sizes), seconds=tuple(seconds))


def name_of(place: Place, environment: Environment) -> str:
    """What the file of such ranks is called."""
    return f"{environment.slug}-{place.ranks // place.near}x{place.near}"


def write(path: Path, place: Place, environment: Environment, curves: Sequence[Measured]) -> Cluster:
    """The cluster as a file that every --cluster reads. Errors: OSError where it cannot be written."""
    text = "".join(_lines(place, environment, curves))
    (made,) = read_clusters(text, path.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return made


def _lines(place: Place, environment: Environment, curves: Sequence[Measured]) -> Iterator[str]:
    device, name = catalogued(environment), name_of(place, environment)
    day = datetime.now(UTC).date().isoformat()
    yield f"# {place.ranks} ranks on {place.ranks // place.near} nodes, measured by harness run --suite collectives.\n"
    yield f'[sources.measured]\ndocument = "harness run --suite collectives"\nwhere = "torch {environment.torch}"\n'
    yield f'url = "{PAGE}"\nread = {day}\nconfirmed = true\n\n'
    yield f'[clusters."{name}"]\ntitle = "{place.ranks} ranks of {name}"\n'
    yield f'gpu = "{device.name if device else environment.slug}"\n'
    yield f'node = {place.near}\ndomain = {place.near}\nfast = "measured"\n'
    share = _bandwidth_between_nodes([each for each in curves if each.near < each.ranks])
    if share is None:
        yield f"most = {place.ranks}\n"
    else:
        yield f"cards = {place.near}\n"
        yield f'card = {{ rate = "{share * 8 / 1e9:.6g}Gbps", name = "as measured", source = "measured" }}\n'
    for each in curves:
        yield f'\n[[clusters."{name}".measured]]\nop = "{each.op}"\nranks = {each.ranks}\nnear = {each.near}\n'
        yield f"sizes = {list(each.sizes)}\nseconds = {[float(f'{s:.6g}') for s in each.seconds]}\n"


def _bandwidth_between_nodes(across: Sequence[Measured]) -> float | None:
    """Bytes a second of one rank to other nodes, such that the model of collectives beyond a domain gives the largest
    messages the times that were measured: the median over all that are sums and gathers; None without other nodes."""
    from statistics import median

    rates = []
    for each in across:
        if each.op in ("all_reduce", "all_gather", "reduce_scatter"):
            rounds, far = passes(each.op, each.ranks) * each.ranks / (each.ranks - 1), each.ranks / each.near
            crossing = rounds * each.sizes[-1] * (far - 1) / far / each.near
            rates.append(crossing / each.seconds[-1] / constants()["across"]["efficiency"])
    return median(rates) if rates else None
