"""What stands beside a model that writes text and does not run as it writes: an encoder of speech, and what speaks."""

from __future__ import annotations

from calc.sizes import Size
from calc.spec import Speech
from calc.trace.trace import Trace


def speech(t: Trace, spec: Speech, d_model: Size) -> None:
    """The weights alone."""
    with t.part("speech", of="other", role="idle"):
        weights = tuple(t.weight(path, *shape, of="other") for path, shape in spec.weights(d_model))
        t.parameters("weights", weights, 0, d_model)
