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
from calc.time.step.step import stage_seconds


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
        seconds = float(each.micro_batch.seconds)
        yield StageTimes(
            forward=float(each.forward),
            backward=seconds - float(each.forward) - float(each.weights),
            weights=float(each.weights),
            reduce=float(each.sent),
            optimizer=float(each.last - each.sent),
            copied=max((float(way.seconds) for way in each.copies), default=0.0),
            waiting=max(float(each.micro_batch.plain - each.computing), 0.0) / seconds if seconds else 0.0,
        )
