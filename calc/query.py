"""What a quantity is asked for: the load, and the conventions under which it is counted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from calc.load import Load
from calc.sizes import Size

Phase = Literal["forward", "training", "decode"]
Checkpointing = Literal["none", "selective", "full", "full-early-stop"]
WindowReading = Literal["tokens", "cache"]
PHASES: tuple[Phase, ...] = ("forward", "training", "decode")
CHECKPOINTING: tuple[Checkpointing, ...] = ("none", "selective", "full", "full-early-stop")
WINDOW_READINGS: tuple[WindowReading, ...] = ("tokens", "cache")

LOADS = ("batch", "seq", "context", "source_seq")
"""The fields of a Query that are sizes."""


@dataclass(frozen=True, slots=True)
class Query:
    """One question to a model. Sizes may be ints, sympy expressions or float64 arrays.

    batch: sequences. seq: tokens of each. context: tokens already in the cache when one more is decoded.
    convention: a name of `calc.conventions`. dtype: a name of `calc.dtypes`.
    window_reading: `tokens`, a window of W holds W tokens; `cache`, W - 1, what a growing cache keeps after prefill.
    state_dtype: of recurrent state. source_seq: length of the encoder's input, None for the same as seq.
    images, image: pictures read beside the text, and their height and width in pixels.
    """

    batch: Size = 1
    seq: Size = 2048
    context: Size = 2048
    phase: Phase = "forward"
    convention: str = "torch"
    checkpointing: Checkpointing = "none"
    dtype: str = "bf16"
    window_reading: WindowReading = "tokens"
    state_dtype: str = "fp32"
    source_seq: Size | None = None
    images: Size = 0
    image: tuple[Size, Size] | None = None

    def load(self, **changes: Any) -> Load:
        """The load of one forward pass over the batch; `changes` are fields of Load."""
        load = Load(
            batch=self.batch,
            seq=self.seq,
            source=self.source_seq,
            usual_source=self.seq,
            images=self.images,
            image=self.image,
        )
        return replace(load, **changes)
