"""The stack that a run's time is told for."""

from __future__ import annotations

from calc.errors import Refused
from calc.sizes import Size, either
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.spec.stack import USUAL_STACK, Stack, load_stack
from calc.time.device.priors import priors
from calc.time.device.speed import Speed


def stack_of(run: Run) -> Stack:
    """The stack that was said, or the usual one."""
    return load_stack(USUAL_STACK) if run.stack is None else run.stack


def graphs_tell(spec: ModelSpec, run: Run) -> bool:
    """Whether it changes anything what graphs launch: where something passes between kernels of a host's, and of
    routers' graphs where there are routers."""
    waits = stack_of(run).fitted.between(spec.has_experts) > 0
    return waits and (run.usual_graphs != "routers" or spec.has_experts)


def computing_longer(spec: ModelSpec, run: Run, speed: Speed) -> Size:
    """How many times as long a step's kernels take as alone: once where steps were measured, else as the stack says.

    Cores that exchange experts' tokens beside computing are taken from every kernel, as if none waited for memory.
    Errors: Refused for a device that has no more cores than those.
    """
    if speed.steps:
        return 1.0
    stack = stack_of(run)
    longer: Size = stack.computing(speed.device, spec.has_experts)
    if stack.overlap.cores and speed.device is not None and speed.device.cores is not None:
        cores = speed.device.cores.value
        if cores <= stack.overlap.cores:
            expected = f"one that leaves cores beside the {stack.overlap.cores} that exchange, of {cores}"
            raise Refused("stack", expected, stack.name)
        longer = longer * either(run.ep > 1, cores / (cores - stack.overlap.cores), 1.0)
    return either(run.gpus == 1, priors()["unmeasured"]["training"], longer) if run.stack is None else longer
