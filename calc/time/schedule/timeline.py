"""A pipeline's step as events: exact, whatever the stages take, by the order in which each of them works."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from calc.errors import Refused
from calc.time.schedule.levels import KINDS, Column, Levels, levels
from calc.time.schedule.orders import ORDERS


class Event(NamedTuple):
    """Something that a stage does. stream: `computing`, or `network` for what runs beside it. Seconds from the step's
    beginning."""

    stage: int
    stream: str
    what: str
    micro_batch: int
    chunk: int
    start: float
    end: float


class StageTimes(NamedTuple):
    """Seconds of one micro-batch on a stage: forward, back to the input, and weights' gradients, all its pieces
    together; of what it sends on; and, once a step, of weights gathered before, gradients reduced behind, of which
    computing hides `hidden` seconds, and the optimizer. waiting: the part of forward and backward in which they wait
    for messages that nothing hides."""

    forward: float
    backward: float
    weights: float = 0.0
    send: float = 0.0
    gather: float = 0.0
    reduce: float = 0.0
    hidden: float = 0.0
    optimizer: float = 0.0
    waiting: float = 0.0


@dataclass(frozen=True)
class Timeline:
    """A step. schedule: of ORDERS. times: what each stage takes. tasks: in what order; starts, ends: when, of each."""

    schedule: str
    times: tuple[StageTimes, ...]
    tasks: Levels
    starts: Column
    ends: Column

    @cached_property
    def seconds(self) -> float:
        """When the last stage is done."""
        return float(max(_done(times, end) for times, end in zip(self.times, self._last, strict=True)))

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
            if times.send and what != "weights":
                found.append(Event(stage, "network", "send", *own, end, end + times.send))
        end = _done(times, float(self._last[stage]))
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

    if schedule not in ORDERS:
        raise Refused("schedule", f"one whose order is known, {', '.join(ORDERS)}", schedule)
    if interleave > 1 and schedule != "1f1b":
        raise Refused("interleave", f"1 in {schedule}", interleave)
    tasks = levels(schedule, len(stages), micro_batches, interleave)
    length = np.array([_seconds(times, schedule == "zero-bubble") for times in stages]) / interleave
    took = length[tasks.stage, tasks.kind]
    sent = np.array([times.send for times in stages])[tasks.stage] * (tasks.kind < 2)
    # What a task waits for has been sent; weights' gradients wait for their own stage alone.
    starts, ready, now = np.zeros(len(took)), np.zeros(len(took) + 1), np.array([_before(times) for times in stages])
    first = 0
    for last in tasks.ends.tolist():
        some = slice(first, last)
        who = tasks.stage[some]
        begin = np.maximum(now[who], ready[tasks.ahead[some]] * (tasks.kind[some] < 2))
        end = begin + took[some]
        now[who] = end
        starts[some], ready[some] = begin, end + sent[some]
        first = last
    return Timeline(schedule, tuple(stages), tasks, starts, starts + took)


def _seconds(times: StageTimes, apart: bool) -> tuple[float, float, float]:
    """Of each of KINDS, all pieces of a micro-batch together. apart: whether weights' gradients are a task of their
    own."""
    return times.forward, times.backward + (0.0 if apart else times.weights), times.weights


def _before(times: StageTimes) -> float:
    """When a stage can begin: its first weights gathered."""
    return times.gather - min(times.hidden, times.gather)


def _done(times: StageTimes, end: float) -> float:
    """When a stage has reduced its gradients and updated its weights, having run its last task at `end`."""
    behind = min(max(times.hidden - times.gather, 0.0), times.reduce)
    return end - behind + times.reduce + times.optimizer
