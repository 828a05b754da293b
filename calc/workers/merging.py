"""What is remembered of rows that come in parts: the best and the front, which are the same however they are cut."""

from __future__ import annotations

from typing import Any

Column = Any
"""A float64 array, an entry a row."""


def front(value: Column, other: Column) -> Column:
    """The places of the rows that no other row beats: none is as small in both and smaller in one. Of rows that are
    equal in both, the first."""
    import numpy as np

    order = np.lexsort((other, value))
    least = np.minimum.accumulate(other[order])
    better = np.ones(len(order), dtype=bool)
    better[1:] = other[order][1:] < least[:-1]
    return order[better]


def smallest(value: Column, top: int) -> Column:
    """The places of the `top` smallest values, in order; of equal ones the first. Those that are nan come last."""
    import numpy as np

    if len(value) > top > 0:
        bound = np.partition(value, top - 1)[top - 1]
        near = np.flatnonzero(~(value > bound))
        return near[np.argsort(value[near], kind="stable")][:top]
    return np.argsort(value, kind="stable")[:top]
