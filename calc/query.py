"""What a quantity is asked for: the load, and the conventions under which it is counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calc.sizes import Size

Phase = Literal["forward", "training", "decode"]
Checkpointing = Literal["none", "selective", "full", "full-early-stop"]
WindowReading = Literal["tokens", "cache"]
PHASES: tuple[Phase, ...] = ("forward", "training", "decode")
CHECKPOINTING: tuple[Checkpointing, ...] = ("none", "selective", "full", "full-early-stop")
WINDOW_READINGS: tuple[WindowReading, ...] = ("tokens", "cache")

LOADS = ("batch", "seq", "context")
"""The fields of a Query that are sizes."""


@dataclass(frozen=True, slots=True)
class Query:
    """One question to a model. Sizes may be ints, sympy expressions or float64 arrays.

    batch: sequences. seq: tokens of each. context: tokens already in the cache when one more is decoded.
    convention: a name of `calc.conventions`. dtype: a name of `calc.dtypes`.
    window_reading: `tokens`, a window of W holds W tokens; `cache`, W - 1, what a growing cache keeps after prefill.
    """

    batch: Size = 1
    seq: Size = 2048
    context: Size = 2048
    phase: Phase = "forward"
    convention: str = "torch"
    checkpointing: Checkpointing = "none"
    dtype: str = "bf16"
    window_reading: WindowReading = "tokens"
