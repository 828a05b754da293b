"""How sure a median is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

RESAMPLES = 1000


class Median(NamedTuple):
    """A median and the interval in which it lies, by bootstrap."""

    value: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """The interval's width as a fraction of the median; 0 for a median of 0."""
        return (self.high - self.low) / self.value if self.value else 0.0


def median_interval(samples: Sequence[float], level: float = 0.95, seed: int = 0, quantile: float = 0.5) -> Median:
    """The median, or another quantile in its place, with its percentile-bootstrap interval (Efron & Tibshirani, An
    Introduction to the Bootstrap, 1993, chapter 13), the same for the same samples.

    Samples are taken as independent; a disturbance that lasts longer than a sample makes the interval too narrow.
    """
    import numpy as np

    values = np.asarray(samples, dtype=float)
    draws = np.random.default_rng(seed).integers(0, len(values), (RESAMPLES, len(values)))
    medians = np.quantile(values[draws], quantile, axis=1)
    low, high = np.quantile(medians, [(1 - level) / 2, (1 + level) / 2])
    return Median(float(np.quantile(values, quantile)), float(low), float(high))
