"""Devices whose times are known by heart: so many FLOPs, bytes or launches a second, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calc.time.device.profile import Launch
from calc.time.device.speed import Speed
from calc.time.models.passes import PassModel


@dataclass(frozen=True)
class Products:
    """2 m n k batch FLOPs at `rate`."""

    rate: float
    bounds: tuple[float, float] = (0.9, 1.1)

    def seconds(self, m: Any, n: Any, k: Any, batch: Any = 1) -> Any:
        return 2 * m * n * k * batch / self.rate

    def interval(self, level: float) -> tuple[float, float]:
        return self.bounds


@dataclass(frozen=True)
class Attending:
    """FLOPs of scores and values, of all pairs, at `rate`, times `more`."""

    rate: float
    more: float = 1.0

    def seconds(self, *sizes: Any) -> Any:
        batch, heads, _, seq, keys, d_head, d_value = sizes[:7]
        return self.more * 2 * batch * heads * seq * keys * (d_head + d_value) / self.rate

    def interval(self, level: float) -> tuple[float, float]:
        return 0.9, 1.1


NEVER = 1e300
"""A rate at which nothing takes any time."""


def toy(
    rate: float = NEVER, bandwidth: float = NEVER, launch: Launch | None = None, kind: Any = "cuda", **more: Any
) -> Speed:
    """A device that does `rate` FLOP/s and `bandwidth` bytes/s in every format."""
    formats = ("fp32", "bf16")
    return Speed(
        name="toy",
        kind=kind,
        basis="profile",
        source="by heart",
        gemm=dict.fromkeys(formats, Products(rate)),
        attention=dict.fromkeys(formats, Attending(rate)),
        attention_backward=dict.fromkeys(formats, Attending(rate, 2.5)),
        passes={dtype: {"copy": PassModel(knots=((1.0, 1 / bandwidth),), spread=(0.8, 1.2))} for dtype in formats},
        launch=launch,
        peaks=dict.fromkeys(formats, rate),
        **more,
    )
