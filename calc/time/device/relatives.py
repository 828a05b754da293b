"""Which measured device stands in for one that was not measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calc.spec.catalogue import load_device
from calc.spec.hardware import Device
from calc.time.device.priors import priors


def nearest(device: Device, among: Sequence[str]) -> str | None:
    """The one of `among` whose architecture is that of `device`, or one that [relatives.families] puts beside it, and
    whose datasheet is nearest; None where there is none of its family."""
    others = [load_device(name) for name in among if name != device.name]
    own = [other for other in others if family(other) == family(device)]
    return min(own, key=lambda other: distance(device, other)).name if own else None


def family(device: Device) -> str:
    """Architectures whose kernels are alike."""
    return priors()["relatives"]["families"].get(device.architecture, device.architecture)


def distance(one: Device, other: Device) -> float:
    """How far two datasheets are apart: log-ratios of bandwidth, of the bf16 peak, and of cores, and of cache."""
    pairs = [(one.bandwidth.value, other.bandwidth.value)]
    pairs += [(a.value, b.value) for a, b in ((one.cores, other.cores), (one.l2, other.l2)) if a and b]
    peaks = (one.known_peaks.get("bf16"), other.known_peaks.get("bf16"))
    if peaks[0] and peaks[1]:
        pairs.append((peaks[0].value, peaks[1].value))
    return sum(abs(math.log(a / b)) for a, b in pairs)
