"""DualPipe: a pipeline that is fed from both ends, each rank with a stage of either way.

DeepSeek-V3 (arXiv:2412.19437, section 3.2.1 and figure 5); the order is that of https://github.com/deepseek-ai/DualPipe
(2025-02), eight phases that depend on how far a rank is from the nearer end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from calc.errors import Refused
from calc.memory.conditions import of_dualpipe
from calc.time.schedule.levels import KINDS, Column, Tasks
from calc.time.schedule.orders import Task, What
from calc.time.schedule.stage_times import StageTimes

Unit = tuple[Task, ...]
"""Tasks that a rank runs as one: all of them wait for what any waits for, and are sent on when the last is done. A
chunk is a way: 0 of micro-batches from the first rank on, 1 of those from the last. micro-batch: of its way."""
Placed = tuple[int, Task, float, float, float]
"""Rank, task, when it begins, when it ends, and when what it made is sent on."""


def both_ends(stages: Sequence[StageTimes], micro_batches: int) -> tuple[Tasks, Column, Column, Column]:
    """(tasks, when each begins, when each ends, when what it made is sent on) of a pipeline of these stages.

    Of the micro-batches the first half goes one way. Stages: two at least.

    Errors: Refused for an odd number of stages, and for micro-batches that are odd or fewer than two a stage.
    """
    import numpy as np

    pp = len(stages)
    for condition in of_dualpipe(pp, micro_batches):
        if not condition.test(condition.a, condition.b):
            raise Refused(condition.field, condition.expected, condition.found)
    ranks = [_Rank(i, list(_order(i, pp, micro_batches // 2)), stages[i].before) for i in range(pp)]
    arrived: dict[tuple[What, int, int, int], float] = {}
    placed: list[Placed] = []
    while any(rank.units for rank in ranks):
        before = len(placed)
        for rank in ranks:
            placed += rank.advance(stages, arrived)
        if len(placed) == before:
            raise AssertionError("ranks wait for one another")
    who, tasks, *times = zip(*placed, strict=True)
    half = micro_batches // 2
    columns = (
        who,
        [KINDS.index(task.what) for task in tasks],
        [task.micro_batch + half * task.chunk for task in tasks],
        [task.chunk for task in tasks],
    )
    starts, ends, leaves = map(np.array, times)
    return Tasks(*map(np.array, columns)), starts, ends, leaves


@dataclass
class _Rank:
    """One rank. units: what it has yet to run, the last first. now: until when it works."""

    number: int
    units: list[Unit]
    now: float

    def __post_init__(self) -> None:
        self.units.reverse()

    def advance(
        self, stages: Sequence[StageTimes], arrived: dict[tuple[What, int, int, int], float]
    ) -> Iterator[Placed]:
        """Run as far as what it waits for has arrived. arrived: when that of (what, way, micro-batch, stage) has."""
        pp = len(stages)
        while self.units:
            unit = self.units[-1]
            awaited = [key for task in unit if (key := self._ahead(task, pp)) is not None]
            if any(key not in arrived for key in awaited):
                return
            self.units.pop()
            end = max([self.now, *(arrived[key] for key in awaited)])
            placed = []
            for task in unit:
                begin, end = end, end + getattr(stages[self._place(task, pp)], task.what)
                placed.append((self.number, task, begin, end))
            yield from ((*each, end) for each in placed)
            for task in unit:
                if task.what != "weights":
                    place = self._place(task, pp)
                    arrived[task.what, task.chunk, task.micro_batch, place] = end + stages[place].send
            self.now = end

    def _place(self, task: Task, pp: int) -> int:
        """Which stage of the model a task belongs to."""
        return pp - 1 - self.number if task.chunk else self.number

    def _ahead(self, task: Task, pp: int) -> tuple[What, int, int, int] | None:
        """What a task waits for; None for nothing but its rank."""
        place = self._place(task, pp)
        if task.what == "forward":
            return ("forward", task.chunk, task.micro_batch, place - 1) if place else None
        if task.what == "backward" and place < pp - 1:
            return "backward", task.chunk, task.micro_batch, place + 1
        return None


def _order(rank: int, pp: int, half: int) -> Iterator[Unit]:
    """What one rank runs, from first to last; of `half` micro-batches each way."""
    near = min(rank, pp - 1 - rank)
    far, own = pp // 2 - near - 1, _Own(int(rank >= pp // 2))
    for _ in range(2 * far):
        yield own.forward(0)
    for _ in range(near + 1):
        yield own.forward(0)
        yield own.forward(1)
    for _ in range(far):
        yield own.back_apart(1)
        yield own.weights()
        yield own.forward(1)
    for i in range(half - pp + near + 1):
        # The two ranks in the middle have nothing of the other way yet that could go back beside it.
        if i == 0 and far == 0:
            yield own.forward(0)
            yield own.back(1)
        else:
            yield own.forward(0) + own.back(1)
        yield own.forward(1) + own.back(0)
    for _ in range(far):
        yield own.back(1)
        yield own.forward(1) + own.back(0)
    # From the middle of the last ways back on, weights' gradients wait until there is nothing else to run.
    apart = [i >= near + 1 for i in range(2 * near + 2)]
    for i in range(near + 1):
        for way, waits in ((1, apart[2 * i]), (0, apart[2 * i + 1])):
            yield own.back_apart(way) if waits else own.back(way)
    for _ in range(far):
        yield own.weights()
        yield own.back_apart(0)
    for _ in range(near + 1):
        yield own.weights()


class _Own:
    """Numbers the tasks of a rank. Way 0 is that of the nearer end. turned: 1 where that is the last rank's."""

    def __init__(self, turned: int) -> None:
        self.turned = turned
        self.counts: dict[tuple[What, int], int] = {}
        self.waiting: list[Task] = []

    def forward(self, way: int) -> Unit:
        return (self._next("forward", way),)

    def back(self, way: int) -> Unit:
        """To inputs and weights, as one."""
        task = self._next("backward", way)
        return task, task._replace(what="weights")

    def back_apart(self, way: int) -> Unit:
        """To inputs; weights' gradients wait."""
        task = self._next("backward", way)
        self.waiting.append(task._replace(what="weights"))
        return (task,)

    def weights(self) -> Unit:
        """Of the task that has waited the longest."""
        return (self.waiting.pop(0),)

    def _next(self, what: What, way: int) -> Task:
        number = self.counts.get((what, way), 0)
        self.counts[what, way] = number + 1
        return Task(what, number, way ^ self.turned)
