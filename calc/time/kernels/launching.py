"""What it takes to launch a kernel: the gap before the next one on a device, and the time of the host."""

from __future__ import annotations

from calc.sizes import Size, is_array
from calc.time.device.speed import Speed
from calc.time.kernels.choice import FUSED
from calc.time.kernels.kernel import Kernel


def launching(kernel: Kernel, seconds: Size, speed: Speed, execution: str) -> tuple[float, float]:
    """Of one call: (seconds to the next one on the device, seconds of the host that overlap with the device). seconds:
    that it takes; what takes none runs within another and is not launched."""
    launch, launches = speed.launch, max(kernel.launches, 1.0)
    if launch is None or (not is_array(seconds) and seconds == 0):
        return 0.0, 0.0
    own = launch.compiled
    if execution not in FUSED:
        own = launch.backward if kernel.direction == "backward" else launch.module if kernel.place else None
    each = launch.eager if own is None else own
    if speed.kind == "cpu":
        return each, 0.0
    gap = 0.0 if launch.graph is None else launch.graph
    return gap * launches, 0.0 if execution == "graph" and launch.graph is not None else each * launches
