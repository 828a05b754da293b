"""What a device cannot exceed, as the models of time need it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from calc.dtypes import dtype as number_format
from calc.spec.fields import Node
from calc.spec.hardware import Device

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Limits(Node):
    """Physical limits of one device in one number format.

    peak: FLOP/s of dense matrix products. bandwidth: bytes/s of memory. itemsize: bytes of one element.
    cores: SMs or compute units, None where work is not handed out in tiles to known units (CPUs).
    l2: bytes of the cache that all cores share, None where not known.
    """

    peak: Positive
    bandwidth: Positive
    itemsize: Positive
    cores: Annotated[int, Field(gt=0)] | None = None
    l2: Positive | None = None


def limits_of(device: Device, dtype: str) -> Limits:
    """The datasheet's limits. Errors: Refused where no peak of `dtype` is published."""
    return Limits(
        peak=float(device.peak(dtype)),
        bandwidth=float(device.bandwidth.value),
        itemsize=number_format(dtype).bits / 8,
        cores=device.cores.value if device.cores else None,
        l2=float(device.l2.value) if device.l2 else None,
    )
