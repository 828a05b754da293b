"""How predictions of measured servers change with constants: all of them at once, of the cases that each is about."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from harness.serving.columns import Columns, Priced, predicted_beside, priced, priced_each


def slopes_of(ready: Columns, given: Mapping[str, float], step: float) -> Any:
    """Change of the logarithms of a token's seconds of all cases, and below them of the first one's, by that of each
    constant's, from half a step below to half above: [2 cases, constants]."""
    import numpy as np

    count, base = len(ready.key), priced(ready, given)
    sides = [_moved(ready, given, move) for move in (-step / 2, step / 2)]
    rows = [_changed(ready, *ends) | _changed(ready, base, ends[0]) for ends in zip(*sides, strict=True)]
    places = [np.nonzero(each)[0] for each in rows]
    low, high = (predicted_beside(ready, many, places) for many in sides)
    every, at = np.concatenate(places), np.repeat(np.arange(len(given)), [len(own) for own in places])
    found = np.zeros((2 * count, len(given)))
    found[every, at] = np.log(high.tpot / low.tpot) / step
    found[every + count, at] = np.log(high.ttft / low.ttft) / step
    return np.nan_to_num(found)


def _moved(ready: Columns, given: Mapping[str, float], move: float) -> list[Priced]:
    """What is said where each constant in turn is moved."""
    return priced_each(ready, moved(given, move), len(given))


def moved(given: Mapping[str, float], move: float) -> dict[str, Any]:
    """Of each constant a column of what it is while each in turn is moved, by so much of its logarithm."""
    import numpy as np

    columns = {name: np.full(len(given), value) for name, value in given.items()}
    for at, column in enumerate(columns.values()):
        column[at] *= math.exp(move)
    return columns


def _changed(ready: Columns, base: Priced, other: Priced) -> Any:
    """Whether constants say something else of each case."""

    changed = (base.rates != other.rates).any(axis=1)[ready.key] | (base.request != other.request)
    return changed | ((base.together != other.together) & (ready.point.together > 0))
