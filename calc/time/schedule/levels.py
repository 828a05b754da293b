"""The tasks of a pipeline in an order in which each has what it waits for, many at once.

Tasks of one level wait for none of the same level: what they take is worked out together, a stage each.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from calc.errors import Refused
from calc.time.schedule.orders import ORDERS, Order

Column = Any
"""A numpy array with an entry a task."""
KINDS = ("forward", "backward", "weights")
"""What a task is, by its number."""


class Tasks(NamedTuple):
    """Tasks of all stages. kind: a place in KINDS. chunk: which of the pieces of layers that the stage holds."""

    stage: Column
    kind: Column
    micro_batch: Column
    chunk: Column


class Levels(NamedTuple):
    """Tasks sorted by level. ahead: the place of the task that each waits for, beside the one that its stage ran
    before; the number of tasks where there is none. ends: where each level ends."""

    tasks: Tasks
    ahead: Column
    ends: Column


@lru_cache(maxsize=32)
def levels(schedule: str, pp: int, micro_batches: int, chunks: int) -> Levels:
    """The tasks of a schedule of `pp` stages. Errors: Refused as its order, and where stages wait for one another."""
    import numpy as np

    if chunks == 1 and schedule in ("gpipe", "1f1b"):
        columns = _by_formula(schedule, pp, micro_batches)
    else:
        columns = _by_order(schedule, pp, micro_batches, chunks)
    level, stage, kind, micro_batch, chunk = columns
    sort = np.argsort(level, kind="stable")
    level, stage, kind, micro_batch, chunk = (column[sort] for column in columns)
    count, last = len(sort), pp * chunks - 1
    piece = chunk * pp + stage
    # The place of the task of each kind, piece and micro-batch; beyond the model's two ends there is none.
    place = np.full((3, last + 3, micro_batches), count)
    place[kind, piece + 1, micro_batch] = np.arange(count)
    step = np.array([-1, 1, 0])[kind]
    ahead = np.where(kind == 2, place[1, piece + 1, micro_batch], place[kind, piece + 1 + step, micro_batch])
    tasks = Tasks(stage, kind, micro_batch, chunk)
    return Levels(tasks, ahead, np.flatnonzero(np.diff(level, append=level[-1] + 1)) + 1)


def _by_formula(schedule: str, pp: int, micro_batches: int) -> Column:
    """(level, stage, kind, micro-batch, chunk) of every task, where each takes as long: when it then begins."""
    import numpy as np

    stage, number = (grid.ravel() for grid in np.mgrid[:pp, :micro_batches])
    if schedule == "gpipe":
        forward = stage + number
        backward = micro_batches + 2 * pp - 2 - stage + (micro_batches - 1 - number)
    else:
        forward = np.where(number < pp - stage, stage + number, stage + 2 * number)
        backward = 2 * pp - 1 - stage + 2 * number
    kind = np.repeat([0, 1], len(stage))
    both = (np.concatenate([forward, backward]), np.tile(stage, 2), kind, np.tile(number, 2), 0 * kind)
    return np.stack(both)


def _by_order(schedule: str, pp: int, micro_batches: int, chunks: int) -> Column:
    """The same from the order of each stage: a level above what the task waits for."""
    import numpy as np

    orders = [ORDERS[schedule](stage, pp, micro_batches, chunks) for stage in range(pp)]
    done: dict[tuple[str, int, int], int] = {}
    found: list[tuple[int, int, int, int, int]] = []
    clock, place = [0] * pp, [0] * pp
    while any(place[stage] < len(orders[stage]) for stage in range(pp)):
        before = len(found)
        for stage in (*range(pp), *reversed(range(pp))):
            place[stage] = _advance(stage, orders[stage], place[stage], clock, done, found, pp, chunks)
        if len(found) == before:
            raise Refused("schedule", "an order in which no stages wait for one another", schedule)
    return np.array(found).T


def _advance(
    stage: int,
    order: Order,
    place: int,
    clock: list[int],
    done: dict[tuple[str, int, int], int],
    found: list[tuple[int, int, int, int, int]],
    pp: int,
    chunks: int,
) -> int:
    """Run a stage as far as it has what it waits for; the place in its order where it stops."""
    last = pp * chunks - 1
    for task in order[place:]:
        piece = task.chunk * pp + stage
        ahead = piece + {"forward": -1, "backward": 1, "weights": 0}[task.what]
        ready = 0
        if 0 <= ahead <= last:
            known = done.get(("backward" if task.what == "weights" else task.what, ahead, task.micro_batch))
            if known is None:
                return place
            ready = known
        level = max(clock[stage], ready)
        clock[stage] = level + 1
        done[task.what, piece, task.micro_batch] = level + 1
        found.append((level, stage, KINDS.index(task.what), task.micro_batch, task.chunk))
        place += 1
    return place
