"""Curves of collectives, measured among the ranks of a job, as a cluster's description of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from calc.spec.cluster import Cluster, Measured
from calc.spec.clusters import read_clusters
from calc.spec.fields import DeviceKind
from calc.time.cluster.crossing import constants
from calc.time.models.collective import passes
from harness.cases.collectives import collective
from harness.measuring.limits import catalogued
from harness.ranks.start import Place
from harness.ranks.timing import BURSTS, measure_all
from harness.record import Environment

PAGE = "https://docs.pytorch.org/docs/stable/elastic/run.html"
"""Of torchrun, which started what was measured."""
SMALLEST, STEPS = 2**12, 8
"""Bytes of a curve's first point for each rank, and how many there are: each is four times the one before."""
STEPS_CPU = 6


def calibrate(
    place: Place, device: DeviceKind, ops: Sequence[str], tell: Callable[[str], None]
) -> tuple[Measured, ...]:
    """A curve of some collectives among all ranks and, where there are several nodes, within one; every rank calls it.

    Within nodes all of them measure at once, as all of them work in a step.
    """
    points = STEPS if device == "cuda" else STEPS_CPU
    groups: list[tuple[int, int, Any]] = [(place.rank, place.ranks, None)]
    if 1 < place.near < place.ranks:
        groups.append((place.rank % place.near, place.near, _node(place)))
    cases = [
        (op, _sizes(points, ranks), rank, ranks, group) for rank, ranks, group in groups for op in ops
    ]  # fmt: skip
    made = [
        partial(_ready, op, nbytes, rank, ranks, device, group)
        for op, sizes, rank, ranks, group in cases
        for nbytes in sizes
    ]
    tell(f"calibrating {', '.join(ops)}: {len(made)} points of curves, {BURSTS} times each")
    seconds = iter([each.seconds for each in measure_all(made, device)])
    return tuple(
        _curve(op, sizes, ranks, place.near, [next(seconds) for _ in sizes]) for op, sizes, _, ranks, _ in cases
    )


def _node(place: Place) -> Any:
    """The group of this rank's node."""
    import torch.distributed as dist

    groups = [dist.new_group(list(range(first, first + place.near))) for first in range(0, place.ranks, place.near)]
    return groups[place.rank // place.near]


def _sizes(points: int, ranks: int) -> list[int]:
    return [SMALLEST * ranks * 4**n for n in range(points)]


def _ready(op: str, nbytes: int, rank: int, ranks: int, device: DeviceKind, group: Any) -> Callable[[], Any]:
    return collective(op, nbytes // 4, rank, ranks, device, group)[0]


def _curve(op: Any, sizes: Sequence[int], ranks: int, near: int, seconds: list[float]) -> Measured:
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
