"""What a search remembers of its plans: the best, the fronts and the plainest, however many it has seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calc.workers.merging import front

Column = Any
"""A float64 array, an entry a plan."""
Rows = Mapping[str, Column]
"""Columns of plans; `value` is what is to be least, `peak` their memory, `parts` how much of a plan is switched on."""

UNLIKE = ("gpus", "structure", "tp", "cp", "pp", "ep", "zero")
"""Columns in which plans differ that are not near copies, as those are which differ in micro-batch and pieces of stages
alone."""


def joined(one: Rows, other: Rows) -> Rows:
    """The rows of both."""
    import numpy as np

    return {name: np.concatenate([one[name], other[name]]) for name in one} if one else other


def chosen(rows: Rows, top: int) -> Rows:
    """The rows that an answer can need: the `top` best, as many of them that are no near copies of better ones, those
    on a front, and of plans as plain as one another the best on each number of GPUs."""
    import numpy as np

    keep = np.zeros(len(rows["value"]), dtype=bool)
    order = best_first(rows)
    keep[order[shown(at(rows, order), top)]] = True
    return at(rows, keep)


def shown(rows: Rows, top: int) -> Column:
    """As `chosen`, the places of rows that stand the best first."""
    import numpy as np

    keep = np.zeros(len(rows["value"]), dtype=bool)
    keep[:top] = True
    keep[no_copies(rows)[:top]] = True
    keep[fronts(rows)] = True
    for gpus in np.unique(rows["gpus"]):
        alike = np.flatnonzero(rows["gpus"] == gpus)
        keep[alike[np.unique(rows["parts"][alike], return_index=True)[1]]] = True
    return np.flatnonzero(keep)


def no_copies(rows: Rows) -> Column:
    """The places of the rows that are no near copies of one before them."""
    import numpy as np

    # A number for each kind: to sort rows of columns takes ten times as long.
    kinds = np.zeros(len(rows["value"]), dtype=np.int64)
    for name in UNLIKE:
        values, places = np.unique(rows[name], return_inverse=True)
        kinds = kinds * len(values) + places
    return np.sort(np.unique(kinds, return_index=True)[1])


def fronts(rows: Rows) -> Column:
    """The places of the rows that stand on the front of their number of GPUs."""
    import numpy as np

    groups = [np.flatnonzero(rows["gpus"] == gpus) for gpus in np.unique(rows["gpus"])]
    return np.concatenate([alike[front(rows["value"][alike], rows["peak"][alike])] for alike in groups])


def at(rows: Rows, places: Column) -> Rows:
    """Some of the rows."""
    return {name: column[places] for name, column in rows.items()}


def best_first(rows: Rows) -> Column:
    """The places of the rows, the best first; of equal ones the plainest, and then the one that holds the least."""
    import numpy as np

    return np.lexsort((rows["peak"], rows["parts"], rows["value"]))
