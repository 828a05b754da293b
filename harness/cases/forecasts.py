"""Forecasts of cases: what `calc.time` says of a kernel or of a model, as a record keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calc.errors import Refused
from calc.time import attention_seconds, kernel_seconds, predict
from harness.record import Forecast

if TYPE_CHECKING:
    from calc.attention import AttentionShape
    from calc.spec import ModelSpec
    from calc.time.device.profile import Profile
    from calc.time.kernels.kernel import Kernel


def of_kernel(profile: Profile, kernel: Kernel, execution: Any = "eager") -> Forecast | None:
    """The time of one kernel; None where the profile does not tell."""
    try:
        timing = kernel_seconds(profile, kernel, execution)
    except Refused:
        return None
    return Forecast(
        seconds=timing.seconds,
        low=timing.low,
        high=timing.high,
        level=timing.level,
        source=_source(profile),
        bound=timing.bound,
        by_component={kernel.function: timing.seconds},
    )


def of_attention(
    profile: Profile, backend: str, shape: AttentionShape, execution: Any = "eager", peak_bytes: float | None = None
) -> Forecast | None:
    """The time of attention by a backend of `harness.kernels`, in the shape's direction alone; None where the profile
    does not tell."""
    try:
        found = attention_seconds(profile, backend, shape, (shape.direction,), execution)
    except Refused:
        return None
    return Forecast(
        seconds=found.seconds,
        low=found.low,
        high=found.high,
        level=found.level,
        source=f"{_source(profile)}: {found.basis}",
        bound=found.bound,
        by_component={"attention": found.seconds},
        peak_bytes=None if peak_bytes is None else int(peak_bytes),
    )


def of_model(profile: Profile, spec: ModelSpec, peak_bytes: float | None = None, **words: Any) -> Forecast | None:
    """The time of a pass or a step, asked as `calc.time.predict` is; None where the profile does not tell."""
    try:
        found = predict(spec, profile, **words)
    except Refused:
        return None
    return Forecast(
        seconds=found.seconds,
        low=found.interval.low,
        high=found.interval.high,
        level=found.interval.level,
        source=_source(profile),
        bound=found.bound,
        by_component=dict(found.by_component),
        peak_bytes=None if peak_bytes is None else int(peak_bytes),
    )


def _source(profile: Profile) -> str:
    """Which profile, of which day: a new one makes new forecasts."""
    return f"profile {profile.name} of {profile.provenance.made}"
