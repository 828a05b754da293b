"""What chains of kernels take of the device and of the host, and sums of that by where they stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from calc.spec.run import Graphs, Run
from calc.time.device.speed import Speed
from calc.time.kernels.kernel import Kernel
from calc.time.kernels.launching import launching
from calc.time.kernels.timing import Timing
from calc.time.step.prediction import stretch_of
from calc.trace.functions import Matmul

ROUTERS = ("router", "shared_expert")
IN_GRAPHS: Mapping[Graphs, tuple[str, ...]] = {
    "none": (),
    "routers": ROUTERS,
    "attention": (*ROUTERS, "attention", "ssm", "norm", "other"),
}
"""What graphs launch -> components of kernels; graphs of a step launch all. Megatron-Core captures shared experts with
routers (docs/user-guide/features/cuda_graph.md)."""


class KernelCost(NamedTuple):
    """What all calls of one kernel take: seconds of the device and of the host, and kernels that a host launches, none
    where a graph does, and None where a stack runs it within another. weights: of the device's seconds, those of
    products for weights' gradients."""

    stretch: str
    place: str
    device: float
    host: float
    launched: float | None
    weights: float


@dataclass(slots=True)
class Totals:
    """What chains take together. device, host: seconds by stretch and place. launched: kernels that
    hosts launch, by place. weights: of the device's seconds, those of products for weights' gradients, by place."""

    device: dict[str, dict[str, float]] = field(default_factory=dict)
    host: dict[str, dict[str, float]] = field(default_factory=dict)
    launched: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)

    def with_chains(self, chains: Iterable[Timed]) -> Totals:
        """The same and what some more chains take."""
        device, host = ({name: dict(places) for name, places in some.items()} for some in (self.device, self.host))
        launched, weights = dict(self.launched), dict(self.weights)
        for chain in chains:
            for stretch, place, seconds, of_host, launches, put_off in chain.costs:
                if launches is not None:
                    launched[place] = launched.get(place, 0.0) + launches
                weights[place] = weights.get(place, 0.0) + put_off
                places, beside = device.setdefault(stretch, {}), host.setdefault(stretch, {})
                places[place] = places.get(place, 0.0) + seconds
                beside[place] = beside.get(place, 0.0) + of_host
        return Totals(device, host, launched, weights)


class Timed(NamedTuple):
    """The kernels of a chain, with what runs beside them, and what each takes."""

    kernels: tuple[tuple[Kernel, Timing], ...]
    costs: tuple[KernelCost, ...]


def kernel_cost(speed: Speed, run: Run, kernel: Kernel, timing: Timing) -> KernelCost:
    """What all calls of a kernel take in a pass of `run`, whose time is known."""
    gap, each = launching(kernel, timing.seconds, speed, run.execution or "sdpa")
    joined = run.stack is not None and run.stack.joins and kernel.again
    launched = None if joined else kernel.calls * _launches(kernel, run)
    seconds = kernel.calls * (timing.seconds + gap)
    weights = seconds if kernel.use == "wgrad" and isinstance(kernel.shape, Matmul) and kernel.shape.weighed else 0.0
    return KernelCost(stretch_of(kernel.direction), kernel.place, seconds, kernel.calls * each, launched, weights)


def _launches(kernel: Kernel, run: Run) -> float:
    """Kernels that a host launches for one: of experts' products, one for each expert where a stack groups none; none
    of what a graph launches."""
    graphs = run.usual_graphs
    if graphs == "step" or kernel.component in IN_GRAPHS[graphs]:
        return 0.0
    one_each = run.stack is not None and run.stack.product_an_expert and kernel.routed is not None
    groups = float(kernel.shape.groups) if one_each and isinstance(kernel.shape, Matmul) else 1.0
    return max(kernel.launches, groups)
