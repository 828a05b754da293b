"""Passes over memory (norms, activations, additions, copies, the optimizer): seconds by bytes moved."""

from __future__ import annotations

from typing import Any

from pydantic import model_validator

from calc.errors import Refused
from calc.sizes import is_array
from calc.spec.fields import Node


class PassModel(Node):
    """How long one kernel takes that moves so many bytes.

    knots: (bytes, seconds) in rising order of bytes; between them the logarithm of time is linear in that of bytes.
    Below the first the time stays, since a launch is most of it; above the last it grows in proportion.
    spread: the ratios of measured to predicted seconds between which 90 % of held-out points lie.
    """

    knots: tuple[tuple[float, float], ...]
    spread: tuple[float, float] = (1.0, 1.0)

    @model_validator(mode="after")
    def _rising(self) -> PassModel:
        sizes = [size for size, _ in self.knots]
        if not sizes or sizes != sorted(set(sizes)) or min(min(knot) for knot in self.knots) <= 0:
            raise Refused("knots", "(bytes, seconds) above 0 in rising order of bytes", self.knots)
        return self

    def seconds(self, nbytes: Any) -> Any:
        """Seconds of one pass over `nbytes`, a number or a float64 array."""
        import numpy as np

        sizes, times = (np.log(column) for column in np.array(self.knots).T)
        logarithms = np.log(np.maximum(nbytes, 1.0))
        found = np.exp(np.interp(logarithms, sizes, times) + np.maximum(logarithms - sizes[-1], 0.0))
        return found if is_array(nbytes) else float(found)
