"""What no run on a device can be faster than: its datasheet's FLOP/s, and its bytes a second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calc.errors import Refused
from calc.spec.run import Run
from calc.time.device.speed import Speed
from calc.time.step.mfu import mfu
from calc.time.step.one_pass import PassSums
from calc.time.step.prediction import Interval, Row

ON_CHIP = 2**30
"""Bytes that no chip keeps from one pass to the next: the largest caches of the catalogue's devices hold 256 MiB."""


def stopped(found: Interval, seconds: float, least: float) -> Interval:
    """An interval whose fast end is not below `least` seconds."""
    return replace(found, low=min(max(found.low, least), seconds))


def least_seconds(run: Run, speed: Speed, sums: PassSums, rows: Sequence[Row], whole: bool) -> float:
    """Seconds of a step at the peak of its products, and at the bandwidth of memory for weights and keys that no chip
    can keep; 0 where there is no datasheet, whose figures alone are limits. whole: whether MFU is asked of it all."""
    if speed.device is None:
        return 0.0
    model = mfu(run, speed, sums.flops, sums.counting, 1.0) if whole else None
    at_peak = float(model.value) if model is not None else 0.0
    executed = sum(_at_peak(row, run, speed) for row in rows)
    read = sum(row.kernel.bytes * row.kernel.calls for row in rows if row.kernel.direction == "forward" and _reads(row))
    bandwidth = speed.device.bandwidth
    moving = 0.0 if bandwidth is None or read < ON_CHIP else read / float(bandwidth.value)
    return max(at_peak, executed, moving)


def _reads(row: Row) -> bool:
    """Whether a kernel's bytes are mostly of weights, or of keys and values."""
    return row.kernel.shape is not None and row.kernel.decode


def _at_peak(row: Row, run: Run, speed: Speed) -> float:
    kernel = row.kernel
    if not kernel.flops or kernel.shape is None:
        return 0.0
    try:
        return kernel.flops * kernel.calls * run.passes_a_step / speed.peak(kernel.dtype)
    except Refused:
        return 0.0
