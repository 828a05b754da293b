"""Which measured devices stand in for one that was not measured, and how their models are moved there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from calc.spec.catalogue import load_device
from calc.spec.hardware import Device
from calc.time.device.priors import priors
from calc.time.models.limits import limits_named

NEAR = 0.5
"""Distance of datasheets over which a measured device counts 1 / e as much."""
LEAST = 0.1
"""Weight, beside the nearest one's, below which a measured device does not count."""


def relatives_of(device: Device, among: Sequence[str]) -> dict[str, float]:
    """Those of `among` whose architecture is that of `device`, or one that [relatives.families] puts beside it, and how
    much each counts, the nearest first; none where there is none of its family."""
    others = [load_device(name) for name in among if name != device.name]
    return weights(device, [other for other in others if family(other) == family(device)])


def weights(device: Device, others: Sequence[Device]) -> dict[str, float]:
    """How much each of `others` counts for `device`, the nearest 1 and first: less, the further its datasheet is."""
    far = {other.name: distance(device, other) for other in others}
    nearest = min(far.values(), default=0.0)
    found = {name: math.exp((nearest - far[name]) / NEAR) for name in sorted(far, key=far.__getitem__)}
    return {name: weight for name, weight in found.items() if weight > LEAST}


def family(device: Device) -> str:
    """Architectures whose kernels are alike."""
    return priors()["relatives"]["families"].get(device.architecture, device.architecture)


def distance(one: Device, other: Device) -> float:
    """How far two datasheets are apart: log-ratios of the bandwidth, of the bf16 peak and of the memory of its own that
    each core has."""
    cores = math.log(one.cores.value / other.cores.value) if one.cores and other.cores else 0.0
    bandwidth = abs(math.log(one.bandwidth.value / other.bandwidth.value) - cores)
    peaks = (one.known_peaks.get("bf16"), other.known_peaks.get("bf16"))
    peak = abs(math.log(peaks[0].value / peaks[1].value) - cores) if peaks[0] and peaks[1] else 0.0
    own = abs(math.log(one.sram.value / other.sram.value)) if one.sram and other.sram else 0.0
    return bandwidth + peak + own


def moved(model: Any, name: str, origin: Device, device: Device) -> Any:
    """`model`, called `name` in the profile of `origin`, on `device`. Errors: Refused where a datasheet has no peak of
    its format."""
    plain = name.partition("@")[0]
    here, there = limits_named(origin, plain), limits_named(device, plain)
    faster = clock(origin, here.peak, device, there.peak)
    return model.moved(here, there, faster, alike(origin, device), cycle(origin, device))


def clock(origin: Device, here: float, device: Device, there: float) -> float:
    """How many times as fast the cores of `device` run under load as those of `origin`, beyond what their peaks of
    `there` and `here` FLOP/s say: dynamic power is voltage squared times clock, and voltage grows with the clock, so
    that a board that may use twice the watts a FLOP runs at the cube root of two. 1 where watts are not known."""
    if origin.power is None or device.power is None:
        return 1.0
    return float((device.power.value / there / (origin.power.value / here)) ** (1 / 3))


def cycle(origin: Device, device: Device) -> float:
    """How long a cycle of the cores of `device` is, over one of `origin`, by published peaks of fp32: each lane of a
    core adds a product a cycle. 1 where a peak is not known, and between cores of one design, whose clocks differ less
    than peaks are rounded (an H20's 44 TFLOP/s would be 2.2 GHz)."""
    if alike(origin, device):
        return 1.0
    here, there = published_clock(origin), published_clock(device)
    return here / there if here and there else 1.0


def published_clock(device: Device) -> float | None:
    """Cycles a second of a device's cores, None where its peak in fp32 or its cores are not known."""
    peak = device.known_peaks.get("fp32")
    if peak is None or device.cores is None:
        return None
    lanes = priors()["relatives"]["lanes"]
    return float(peak.value / device.cores.value / (2 * lanes.get(device.name, lanes["usual"])))


def alike(one: Device, other: Device) -> bool:
    """Whether cores are of one design: of one family, and with as much memory of their own as far as that is known."""
    if family(one) != family(other):
        return False
    return one.sram is None or other.sram is None or one.sram.value == other.sram.value


def wider(origin: Device, device: Device) -> float:
    """The exponent by which intervals are widened on the way from `origin` to `device`."""
    return priors()["relatives"]["wider" if alike(origin, device) else "wider_other_cores"]
