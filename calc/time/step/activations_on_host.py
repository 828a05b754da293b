"""What layers keep on the host: on its way there while later layers compute, and back while they go back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from calc.errors import Refused
from calc.memory.activations import activations
from calc.memory.sharding import Stage, stages
from calc.sizes import Size, at_least, minimum
from calc.spec import ModelSpec
from calc.spec.hardware import Device
from calc.spec.run import Run
from calc.time.device.priors import priors
from calc.time.kernels.kernel import Direction

BOTH_WAYS: tuple[tuple[str, Direction], ...] = (("down", "forward"), ("up", "backward"))
"""Which way -> the stretch that it passes beside."""


class Crossing(NamedTuple):
    """One way of one micro-batch: the stretch that it passes beside, its seconds, and those that computing hides."""

    way: str
    during: Direction
    seconds: Size
    hidden: Size


def moved_bytes(spec: ModelSpec, run: Run) -> float:
    """Bytes that a micro-batch has on the host (`calc.memory.activations`), each way; 0 where none waits there.

    What modules that predict further tokens keep stays on the device: their layers are not among those that count."""
    if run.offload != "activations" or not run.trains:
        return 0.0
    run = run.changed(mtp=False)
    (alone,) = activations(spec, run.load(), run, run.checkpointing, stages(spec, run.changed(pp=1)))
    return float(alone.moved)


def crossings(
    run: Run, device: Device | None, stage: Stage, moved: Size, computing: Mapping[str, Size]
) -> Iterator[Crossing]:
    """Both ways of a micro-batch's `moved` bytes, each behind the part of its stretch that `_beside` says.

    They cross the link to the host at the part of its rate that [host_copies] says, one direction at a time, and no
    faster than a machine's GPUs can share its memory, where that is known.
    Errors: Refused where the link is not known.
    """
    if device is None or device.host is None:
        found = None if device is None else device.name
        raise Refused("gpu", "with --offload activations one whose link to the host is known", found)
    rate: Size = priors()["host_copies"]["bandwidth"] * device.host.value / 2
    shared = None if run.cluster is None else run.cluster.host_bandwidth(run.gpus)
    if shared is not None:
        rate = minimum(rate, shared)
    seconds = moved / rate
    part = _beside(run, sum(stage.layers.values()))
    for way, during in BOTH_WAYS:
        yield Crossing(way, during, seconds, minimum(seconds, part * computing.get(during, 0.0)))


def _beside(run: Run, layers: Size) -> Size:
    """The part of a stretch that copies pass beside, where the head is taken to compute as long as a layer.

    All layers but the first, since a copy begins once one is through. Where no more layers may be on the GPU than stay,
    the last one waits for all copies down, and the last one but one sees the first copy up begin: neither head nor two
    layers hide any. Where one layer stays, each waits for the copy of the one before it.
    """
    if not run.waits_for_host:
        return layers / (layers + 1)
    stay = 1 if run.layers_on_host is None else layers - run.layers_on_host
    return at_least(stay, 2) * (layers - 2) / (layers + 1)
