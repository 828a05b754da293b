"""What it takes to launch a kernel: the gap before the next one on a device, and the time of the host."""

from __future__ import annotations

from calc.time.device.speed import Speed
from calc.time.kernels.kernel import Kernel


def launching(kernel: Kernel, speed: Speed, execution: str) -> tuple[float, float]:
    """Of one call: (seconds to the next one on the device, seconds of the host that overlap with the device)."""
    launch, launches = speed.launch, max(kernel.launches, 1.0)
    if launch is None:
        return 0.0, 0.0
    each = launch.eager
    if execution in ("compiled", "graph"):
        each = launch.eager if launch.compiled is None else launch.compiled
    elif kernel.direction == "backward" and launch.backward is not None:
        each = launch.backward
    elif kernel.place and launch.module is not None:
        each = launch.module
    if speed.kind == "cpu":
        return each, 0.0
    gap = 0.0 if launch.graph is None else launch.graph
    return gap * launches, 0.0 if execution == "graph" and launch.graph is not None else each * launches
