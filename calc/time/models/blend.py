"""One answer of the models of several devices: the mean of what each says, in the logarithm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from calc.time.models.questions import Shape
from calc.time.models.residual import Column


class Blend(NamedTuple):
    """Models of one kind of kernel, of which each counts by its share; shares add up to 1."""

    models: tuple[Any, ...]
    shares: tuple[float, ...]

    @property
    def kernel_source(self) -> str:
        """What ran where most is taken from."""
        return self.models[self.shares.index(max(self.shares))].kernel_source

    def predicted(self, shape: Shape) -> Column:
        """Seconds of the launches in `shape`."""
        import numpy as np

        parts = (share * np.log(each.predicted(shape)) for each, share in zip(self.models, self.shares, strict=True))
        return np.exp(sum(parts))

    def seconds(self, *sizes: Any, **named: Any) -> Any:
        """Seconds by the arguments that the models take; a float where they give one, else an array."""
        import numpy as np

        answers = [each.seconds(*sizes, **named) for each in self.models]
        found = np.exp(sum(share * np.log(answer) for answer, share in zip(answers, self.shares, strict=True)))
        return float(found) if isinstance(answers[0], float) else found

    def interval(self, level: float) -> tuple[float, float]:
        """Factors (low, high) on a predicted time between which `level` of measured times lie."""
        ends = [each.interval(level) for each in self.models]
        low, high = (
            math.exp(sum(share * math.log(end[side]) for end, share in zip(ends, self.shares, strict=True)))
            for side in (0, 1)
        )
        return low, high


def blended(models: Sequence[Any], weights: Sequence[float]) -> Any:
    """What `models` say together, each by its weight; one alone is itself."""
    if len(models) == 1:
        return models[0]
    total = sum(weights)
    return Blend(tuple(models), tuple(weight / total for weight in weights))
