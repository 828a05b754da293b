"""Weights that the host updates: gradients on their way to it, its step, and weights on their way back."""

from __future__ import annotations

from typing import NamedTuple

from calc.errors import Refused
from calc.sizes import Size, maximum
from calc.spec.hardware import Device
from calc.spec.run import Run
from calc.time.cluster.stacks import stack_of
from calc.time.kernels.kernel import ADAMW_COPIES, width_of


class Offloaded(NamedTuple):
    """Seconds of each of the three parts, and of all in a step; low, high: factors between which that is expected."""

    down: Size
    step: Size
    up: Size
    seconds: Size
    low: float
    high: float


def offloaded_seconds(run: Run, device: Device | None, stepped: Size) -> Offloaded:
    """What the host adds to a step of a rank that updates `stepped` parameters, `run.offloaded` of them there.

    Gradients and weights cross the link in the format of what is updated: the host's copies are as wide, and what is
    narrower on the GPU is cast there. AdamW reads weight, gradient and two moments and writes all but the gradient,
    and the processes of a machine share its memory's bandwidth.
    Errors: Refused where the link, the host's memory, or what a stack reaches of them is not known.
    """
    its, cluster = stack_of(run).offload, run.cluster
    if its is None or its.reaches is None or its.link is None:
        raise Refused(
            "stack", "with --offload optimizer one whose step on the host was measured (megatron-core)", run.stack
        )
    shared = None if cluster is None else cluster.host_bandwidth(run.gpus)
    if shared is None:
        found = None if cluster is None else cluster.name
        raise Refused("cluster", "with --offload optimizer one whose machines' memory is known (`clusters`)", found)
    if device is None or device.host is None:
        found = None if device is None else device.name
        raise Refused("gpu", "with --offload optimizer one whose link to the host is known", found)
    how = run.precision
    wide = width_of(how.updated)
    away = stepped * float(run.offloaded)
    crossing = wide * away / (its.link * device.host.value / 2)
    each = its.reaches * shared
    step = ADAMW_COPIES * wide * away / each
    seconds = maximum(crossing, step) if its.overlap else 2 * crossing + step
    return Offloaded(crossing, step, crossing, seconds, its.low, its.high)
