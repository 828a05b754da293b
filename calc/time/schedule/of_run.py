"""The timeline of one run: what each of its stages takes, from the same kernels as the step's seconds."""

from __future__ import annotations

from collections.abc import Iterator

from calc.errors import Refused
from calc.memory.sharding import Stage, stages
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.time.device.speed import Speed
from calc.time.kernels.kernel import DIRECTIONS
from calc.time.kernels.timing import LEVEL
from calc.time.schedule.stage_times import StageTimes
from calc.time.schedule.timeline import Timeline, timeline
from calc.time.step.one_pass import PassSums, Question, passes
from calc.time.step.step import places, stage_seconds, weighed

WEIGHTS = 0.5
"""Of going back, the part that makes weights' gradients: one of two products of equal work."""


def timeline_of(spec: ModelSpec, speed: Speed, run: Run) -> Timeline:
    """The events of a step of training. Errors: Refused where nothing is trained, and as `timeline`."""
    if not run.trains:
        raise Refused("timeline", "a step of training", run.phase)
    question = Question(spec, speed, "", DIRECTIONS, LEVEL)
    one = passes(question, [run])[0].sums
    found = list(_times(question, run, one, stages(spec, run)))
    return timeline(found, run.passes_a_step, run.schedule, run.interleave)


def _times(question: Question, run: Run, one: PassSums, found: list[Stage]) -> Iterator[StageTimes]:
    for stage in found:
        each = stage_seconds(question, run, stage, one)
        factors = places(question.spec, stage)
        forward = max(weighed(one.device["forward"], factors), weighed(one.host["forward"], factors))
        part = float(forward / each.computing) if each.computing else 1 / 3
        seconds = float(each.micro_batch.seconds)
        ways = [float(way.seconds - way.hidden) for way in each.copies]
        down, up = ways or (0.0, 0.0)
        alone = seconds - down - up
        back = alone * (1 - part) + up
        yield StageTimes(
            forward=alone * part + down,
            backward=back * (1 - WEIGHTS),
            weights=back * WEIGHTS,
            reduce=float(each.sent),
            optimizer=float(each.last - each.sent),
            copied=max((float(way.seconds) for way in each.copies), default=0.0),
            waiting=max(float(each.micro_batch.plain - each.computing), 0.0) / seconds if seconds else 0.0,
        )
