"""A pipeline's step as events: exact, whatever the stages take, by the order in which each of them works."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from calc.errors import Refused
from calc.time.schedule.dualpipe import both_ends
from calc.time.schedule.levels import KINDS, Column, Tasks, levels
from calc.time.schedule.orders import ORDERS, SCHEDULES
from calc.time.schedule.stage_times import StageTimes


class Event(NamedTuple):
    """Something that a stage does. stream: `computing`, or beside it `network`, or `host` for copies to the host and
    back. Seconds from the step's beginning."""

    stage: int
    stream: str
    what: str
    micro_batch: int
    chunk: int
    start: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """A step. schedule: of SCHEDULES. times: what each stage takes. tasks: in what order; starts, ends: when, of each.
    leaves: when what each made is sent on."""

    schedule: str
    times: tuple[StageTimes, ...]
    tasks: Tasks
    starts: Column
    ends: Column
    leaves: Column

    @cached_property
    def seconds(self) -> float:
        """When the last stage is done."""
        return float(max(times.done(end) for times, end in zip(self.times, self._last, strict=True)))

    @cached_property
    def stages(self) -> tuple[tuple[Event, ...], ...]:
        """The events of each stage."""
        return tuple(self._events(stage) for stage in range(len(self.times)))

    def idle(self, stage: int) -> float:
        """Seconds in which a stage computes nothing: its bubble, and what it waits for the network."""
        busy = sum(event.end - event.start for event in self.stages[stage] if event.stream == "computing")
        return self.seconds - busy

    @property
    def _last(self) -> Column:
        """When each stage has run its last task."""
        import numpy as np

        found = np.zeros(len(self.times))
        np.maximum.at(found, self.tasks.stage, self.ends)
        return found

    def _events(self, stage: int) -> tuple[Event, ...]:
        """Those of one stage, in order of their beginning but for the optimizer, which is the last."""
        import numpy as np

        tasks, times = self.tasks, self.times[stage]
        found: list[Event] = []
        if times.gather:
            found.append(Event(stage, "network", "all_gather weights", 0, 0, 0.0, times.gather))
        for place in np.flatnonzero(tasks.stage == stage):
            what, own = KINDS[tasks.kind[place]], (int(tasks.micro_batch[place]), int(tasks.chunk[place]))
            end = float(self.ends[place])
            found.append(Event(stage, "computing", what, *own, float(self.starts[place]), end))
            if times.copied and what == "forward":
                found.append(Event(stage, "host", "activations down", *own, end - times.copied, end))
            if times.copied and what == "backward":
                start = float(self.starts[place])
                found.append(Event(stage, "host", "activations up", *own, start, start + times.copied))
            if times.send and what != "weights":
                start = float(self.leaves[place])
                found.append(Event(stage, "network", "send", *own, start, start + times.send))
        end = times.done(float(self._last[stage]))
        if times.reduce:
            start = end - times.optimizer - times.reduce
            found.append(Event(stage, "network", "reduce gradients", 0, 0, start, start + times.reduce))
        found.append(Event(stage, "computing", "optimizer", 0, 0, end - times.optimizer, end))
        return tuple(found)


def timeline(stages: Sequence[StageTimes], micro_batches: int, schedule: str = "1f1b", interleave: int = 1) -> Timeline:
    """The step of a pipeline of these stages.

    A piece goes forward when the stage before has sent it (the first stage's next piece when the last stage has), and
    back when the stage behind has. A message takes its time beside computing; nothing else of its stage waits for it.
    Errors: Refused for a schedule that has no order, and where pieces cannot be handed round.
    """
    import numpy as np

    if schedule not in SCHEDULES:
        raise Refused("schedule", f"one whose order is known, {', '.join(SCHEDULES)}", schedule)
    if interleave > 1 and schedule != "1f1b":
        raise Refused("interleave", f"1 in {schedule}", interleave)
    if schedule not in ORDERS and len(stages) > 1:
        own = tuple(_both(one, other) for one, other in zip(stages, reversed(stages), strict=True))
        return Timeline(schedule, own, *both_ends(stages, micro_batches))
    tasks, ahead, ends = levels(schedule if schedule in ORDERS else "1f1b", len(stages), micro_batches, interleave)
    length = np.array([_seconds(times, schedule == "zero-bubble") for times in stages]) / interleave
    took = length[tasks.stage, tasks.kind]
    sent = np.array([times.send for times in stages])[tasks.stage] * (tasks.kind < 2)
    # What a task waits for has been sent; weights' gradients wait for their own stage alone.
    starts, ready, now = np.zeros(len(took)), np.zeros(len(took) + 1), np.array([times.before for times in stages])
    first = 0
    for last in ends.tolist():
        some = slice(first, last)
        who = tasks.stage[some]
        begin = np.maximum(now[who], ready[ahead[some]] * (tasks.kind[some] < 2))
        end = begin + took[some]
        now[who] = end
        starts[some], ready[some] = begin, end + sent[some]
        first = last
    return Timeline(schedule, tuple(stages), tasks, starts, starts + took, starts + took)


def _both(one: StageTimes, other: StageTimes) -> StageTimes:
    """Of a rank that has both stages: what it does once a step it does for each."""
    once = ("gather", "reduce", "hidden", "optimizer")
    return one._replace(**{name: getattr(one, name) + getattr(other, name) for name in once})


def _seconds(times: StageTimes, apart: bool) -> tuple[float, float, float]:
    """Of each of KINDS, all pieces of a micro-batch together. apart: whether weights' gradients are a task of their
    own."""
    return times.forward, times.backward + (0.0 if apart else times.weights), times.weights
