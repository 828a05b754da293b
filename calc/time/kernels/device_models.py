"""What of a device answers a kernel: one of its own models, or that of its datasheet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calc.errors import Refused
from calc.time.device.speed import Speed


@dataclass(frozen=True, slots=True)
class Choice:
    """Which model a kernel is asked of: its table and key, and the columns of its question.

    group: kernels whose errors go together. scale: what the answer is multiplied with. prior: not of the device's own.
    """

    key: tuple[str, str]
    model: Any
    question: tuple[float, ...]
    group: str
    scale: float = 1.0
    prior: bool = False
    widen: tuple[float, float] | None = None


def find(tables: Callable[[Speed], Any], names: Sequence[str], speed: Speed, dtype: str) -> tuple[str, Any, bool]:
    """(name, model, whether it is a prior) of the first of `names` that is known, on the device or by its datasheet."""
    for known, prior in ((speed, speed.basis == "datasheet"), (None, True)):
        table = tables(speed.published if known is None and documented(speed) else speed)
        for name in names:
            if name in table:
                return name, table[name], prior
    if speed.device is not None:
        speed.device.peak(dtype)
    known = sorted({name.partition(".")[0] for name in tables(speed)})
    raise Refused("dtype", f"one that the time on {speed.name} is known for: {', '.join(known) or 'none'}", dtype)


def documented(speed: Speed) -> bool:
    """Whether its datasheet tells what it was not measured at."""
    return speed.device is not None and speed.basis != "datasheet"
