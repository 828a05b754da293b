"""What a device cannot exceed, as the models of time need it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from calc.errors import Refused
from calc.spec.fields import Node
from calc.spec.hardware import Device
from calc.time.models.kernel_formats import kernel_format

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Limits(Node):
    """Physical limits of one device in one number format.

    peak: FLOP/s of dense matrix products. bandwidth: bytes/s of memory. itemsize: bytes of one element.
    weights: of an element of a product's matrix, of experts' matrices, or of attention's cache; results: of an element
    that is written; None: `itemsize`. cores: SMs or compute units, None where work is not handed out in tiles to known
    units (CPUs). l2: bytes of the cache that all cores share, None where not known.
    """

    peak: Positive
    bandwidth: Positive
    itemsize: Positive
    weights: Positive | None = None
    results: Positive | None = None
    cores: Annotated[int, Field(gt=0)] | None = None
    l2: Positive | None = None

    @property
    def weight_size(self) -> float:
        """Bytes of an element of the operand that may be kept in another format."""
        return self.itemsize if self.weights is None else self.weights

    @property
    def result_size(self) -> float:
        """Bytes of an element that is written."""
        return self.itemsize if self.results is None else self.results


def limits_of(device: Device, dtype: str, cache: str | None = None) -> Limits:
    """The datasheet's limits for kernels in `dtype` (`kernel_formats.FORMATS` or a plain one), of attention with keys
    and values in `cache`. Errors: Refused where no peak of `dtype` is published."""
    how = kernel_format(dtype)
    weights = how.weights if cache is None else kernel_format(cache).weights
    return Limits(
        peak=float(device.peak(how.peak)),
        bandwidth=float(device.bandwidth.value),
        itemsize=how.factors,
        weights=None if weights == how.factors else weights,
        results=None if how.results == how.factors else how.results,
        cores=device.cores.value if device.cores else None,
        l2=float(device.l2.value) if device.l2 else None,
    )


def limits_named(device: Device, name: str) -> Limits:
    """The limits that a profile's name of a model tells: FORMAT, or FORMAT.CACHE_cache of attention, and what it is
    used for behind that. Errors: as `limits_of`."""
    dtype, *rest = name.split(".")
    caches = [word.removesuffix("_cache") for word in rest if word.endswith("_cache")]
    return limits_of(device, dtype, caches[0] if caches else None)


def has_peak(device: Device, name: str) -> bool:
    """Whether the datasheet says how fast products are of the format that the name of a model begins with."""
    try:
        return kernel_format(name.partition(".")[0]).peak in device.known_peaks
    except Refused:
        return False
