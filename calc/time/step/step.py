"""A step, of one plan or of very many: passes one after the other, a pipeline's filling, ranks that tell each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from calc.memory.sharding import Stage
from calc.sizes import Size, either, is_array, maximum, minimum
from calc.spec import ModelSpec
from calc.spec.run import ExecutionName, Run
from calc.time.cluster.network import Held, Hidden, Talk, between_ranks
from calc.time.device.priors import priors
from calc.time.kernels.residual import Column
from calc.time.kernels.timing import column_seconds
from calc.time.step.extra_kernels import update
from calc.time.step.one_pass import PassSums, Question, Sums
from calc.time.step.prediction import launching, stretch_of


class Step(NamedTuple):
    """seconds: of a step. plain: of them, what kernels, collectives and a pipeline's filling take. bubble: that
    filling. fixed: what the host takes once a step."""

    seconds: Size
    plain: Size
    bubble: Size
    fixed: float


def step_of(asked: Question, run: Run, each: Size, last: Size) -> Step:
    """A step of which one micro-batch takes `each` seconds on the slowest stage, and what follows them all `last`."""
    speed, whole = asked.speed, run.trains and not asked.within
    bubble = (run.pp - 1) / run.interleave * each
    fixed = speed.launch.step if speed.launch and whole else 0.0
    plain = run.passes_a_step * each + bubble + last + fixed
    longer: Size = 1.0
    if whole and not speed.steps:
        table = priors()["unmeasured"]
        longer = either(run.gpus == 1, table["training"], table["parallel"])
    return Step(plain * longer, plain, bubble, fixed)


def step_columns(asked: Question, run: Run, stage: Stage, one: PassSums) -> Column:
    """Seconds of a step on each of a column of stages; nan where a collective of it cannot be.

    run: sizes of the plans as numbers, or as columns as long as those of `stage`. one: the pass of each.
    """
    factors = places(asked.spec, stage)
    computing = {
        name: maximum(_weighed(one.device[name], factors), _weighed(one.host[name], factors)) for name in one.device
    }
    each = sum(computing.values()) + _weighed(one.talking, factors)
    last: Size = 0.0
    held = held_on(stage, one)
    if updates(asked, run):
        last = _ends(asked, run, stage, held.trained)
    if talks(asked, run):
        spoken = [(talk, _column(talk, asked, run)) for talk in between_ranks(asked.spec, run, held)]
        for talk, seconds, behind in hidden(computing, spoken):
            each, last = (each, last + seconds - behind) if talk.once else (each + seconds - behind, last)
    return step_of(asked, run, each, last).seconds


def updates(asked: Question, run: Run) -> bool:
    """Whether sums of gradients and the optimizer are asked for."""
    return run.trains and not asked.within and "update" in asked.directions


def talks(asked: Question, run: Run) -> bool:
    """Whether what ranks tell each other beside a pass is asked for."""
    return run.trains and not asked.within and "network" in asked.directions


def places(spec: ModelSpec, stage: Stage) -> Mapping[str, Size]:
    """Place -> what part a stage has of all that stands there; `all` is what every stage has."""
    found: dict[str, Size] = {group.name: stage.layers[group.name] / group.count for group in spec.layers}
    return found | {"front": stage.first * 1.0, "end": stage.last * 1.0, "all": 1.0}


def held_on(stage: Stage, one: PassSums) -> Held:
    """The parameters of a stage's rank. What the first stage and the last have both (a tied table), one has once."""

    def total(by_place: Sums) -> Size:
        rest = by_place["both"] - by_place["front"] - by_place["end"]
        found = by_place["all"] + stage.first * by_place["front"] + stage.last * by_place["end"]
        found = found + stage.first * stage.last * rest
        for name, layers in stage.layers.items():
            found = found + layers * by_place[name]
        return found

    return Held(total(one.elements), total(one.trained), one.experts)


def after_all(execution: ExecutionName) -> ExecutionName:
    """How what follows all passes runs: in no graph."""
    return "eager" if execution == "graph" else execution


def hidden(computing: Mapping[str, Size], spoken: Iterable[tuple[Talk, Size]]) -> Iterator[tuple[Talk, Size, Size]]:
    """Collectives with their seconds, and those of them that pass while a stretch is computing: at most the prior
    `overlap` of each, and together no more than the stretch lasts."""
    left: dict[Hidden, Size] = {"forward": computing.get("forward", 0.0), "backward": computing.get("backward", 0.0)}
    for talk, seconds in spoken:
        behind: Size = 0.0
        if talk.behind != "nothing":
            behind = minimum(seconds * priors()["network"]["overlap"], left[talk.behind])
            left[talk.behind] = left[talk.behind] - behind
        yield talk, seconds, behind


def _weighed(sums: Sums, factors: Mapping[str, Size]) -> Size:
    total: Size = 0.0
    for place, seconds in sums.items():
        total = total + factors[place] * seconds
    return total


def _column(talk: Talk, asked: Question, run: Run) -> Size:
    """Seconds of all calls of a collective in a pass, or in a step."""
    kernel = talk.kernel
    seconds = column_seconds(kernel, asked.speed, run.execution or "sdpa", run.network)
    return either(kernel.calls > 0, kernel.calls * seconds) if is_array(kernel.calls) else kernel.calls * seconds


def _ends(asked: Question, run: Run, stage: Stage, trained: Size) -> Size:
    """Seconds of what follows all passes."""
    device: dict[str, Size] = {}
    host: dict[str, Size] = {}
    execution = run.execution or "sdpa"
    for kernel in update(asked.spec, run, stage, trained):
        seconds = column_seconds(kernel, asked.speed, execution, run.network)
        gap, each = launching(kernel, asked.speed, after_all(execution))
        stretch = stretch_of(kernel.direction)
        device[stretch] = device.get(stretch, 0.0) + kernel.calls * (seconds + gap)
        host[stretch] = host.get(stretch, 0.0) + kernel.calls * each
    total: Size = 0.0
    for stretch, seconds in device.items():
        total = total + maximum(seconds, host[stretch])
    return total
