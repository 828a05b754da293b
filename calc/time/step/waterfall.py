"""From the device's peak to what a step reaches: each loss with its seconds."""

from __future__ import annotations

from typing import NamedTuple

from calc.errors import Refused
from calc.time.device.speed import Speed
from calc.time.kernels.kernel import Between, Kernel
from calc.time.step.prediction import ON_HOST, Prediction, Row

IDEAL = "peak"
"""What products and attention would take at the device's peak."""
NETWORK: dict[Between, str] = {
    "tensor": "tensor communication",
    "context": "context communication",
    "experts": "expert exchange",
    "pipeline": "pipeline messages",
    "data": "data communication",
}
"""Which ranks a collective is between -> its bar."""
BARS = (
    IDEAL,
    "shapes of products",
    "attention",
    "memory-bound ops",
    "launches",
    "recomputation",
    *NETWORK.values(),
    "bubble",
    "imbalance",
    "optimizer",
    "offload",
    "overhead",
)


class Bar(NamedTuple):
    """One loss. what: of BARS. seconds: of the step."""

    what: str
    seconds: float


def waterfall(it: Prediction, speed: Speed) -> list[Bar]:
    """The bars of a step, which add up to its seconds; those of no length are left out.

    What is recomputed, and what waits for the host, is a loss as a whole. Collectives count with what nothing hides.
    Where stages of a pipeline differ, what the slowest does more than all do on average is `imbalance`.
    """
    found = dict.fromkeys(BARS, 0.0)
    for row in it.kernels:
        seconds = row.share * it.seconds
        name = _bar(row)
        ideal = 0.0
        if name in ("shapes of products", "attention"):
            ideal = min(_at_peak(row.kernel, speed) * row.kernel.calls * it.run.passes_a_step, seconds)
        found[IDEAL] += ideal
        found[name] += seconds - ideal
    uneven = 1 - it.even
    for name in BARS:
        if name not in ("optimizer", "offload"):
            found["imbalance"] += uneven * found[name] if name != "imbalance" else 0.0
            found[name] *= 1 - uneven if name != "imbalance" else 1.0
    parts = it.by_component
    found["bubble"] += parts.get("bubble", 0.0)
    found["overhead"] += parts.get("overhead", 0.0) + parts.get("host", 0.0)
    return [Bar(name, seconds) for name, seconds in found.items() if seconds > 0]


def _bar(row: Row) -> str:
    kernel = row.kernel
    if kernel.between is not None:
        return NETWORK[kernel.between]
    if kernel.function == ON_HOST:
        return "offload"
    if kernel.direction == "update":
        return "optimizer"
    if kernel.direction == "recomputed":
        return "recomputation"
    if row.waits:
        return "launches"
    if kernel.function == "attention":
        return "attention"
    return "shapes of products" if kernel.shape is not None else "memory-bound ops"


def _at_peak(kernel: Kernel, speed: Speed) -> float:
    """Seconds of one call at the peak of its format; 0 where none is known."""
    try:
        return kernel.flops / speed.peak(kernel.dtype)
    except Refused:
        return 0.0
