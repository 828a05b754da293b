"""One collective between ranks as a kernel: how many take part, and how far apart they stand."""

from __future__ import annotations

import math

from calc.sizes import Size, either, is_array
from calc.spec.run import Run
from calc.time.cluster.links import Links, near_of, refuse_unknown
from calc.time.kernels.kernel import Between, Kernel, Send, width_of
from calc.time.models.collective import Collective
from calc.time.step.formats import number_formats
from calc.time.step.record import place_of
from calc.trace.part import Leaf


def width_sent(run: Run) -> float:
    """Bytes of a number that ranks send one another within a pass: no fewer than 16 bits."""
    return max(width_of(number_formats(run).compute), 2.0)


def after(
    leaf: Leaf,
    name: Between,
    op: Collective,
    size: float,
    ranks: int,
    calls: float,
    run: Run,
    links: Links,
    stride: int = 1,
) -> Kernel:
    """A collective that follows an op, over `ranks` `stride` GPUs apart. name: whose it is in a waterfall."""
    return send(f"{leaf.path}.{name}", name, op, size, ranks, calls, links, run, stride)._replace(place=place_of(leaf))


def send(
    path: str,
    between: Between,
    op: Collective,
    size: Size,
    ranks: Size,
    calls: Size,
    links: Links,
    run: Run,
    stride: Size,
    span: Size | None = None,
) -> Kernel:
    """stride: how many GPUs apart the ranks of the group stand, which are numbered tensor first, then context, data,
    pipeline. span: GPUs from the first to the last, where that is not all of the group."""
    reach: Size = ranks * stride if span is None else span
    beyond, lost = reach > links.domain, reach > links.reach
    if not any(map(is_array, (beyond, calls))) and beyond and calls and (links.share is None or lost):
        refuse_unknown(path, op, reach, links)
    size = either(lost, math.nan, size)
    return Kernel(
        path=path,
        component="network",
        function=op,
        direction="network",
        dtype=number_formats(run).compute,
        calls=calls * 1.0,
        bytes=size * 1.0,
        shape=Send(op, ranks, size * 1.0, beyond, near_of(links, ranks, stride)),
        between=between,
    )
