"""A step, of one plan or of very many: passes one after the other, a pipeline's filling, ranks that tell each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from calc.memory.sharding import Stage
from calc.sizes import Size, either, is_array, maximum, minimum
from calc.spec import ModelSpec
from calc.spec.hardware import Device
from calc.spec.run import ExecutionName, Run
from calc.time.cluster.links import Links, links_of
from calc.time.cluster.measured import with_measured
from calc.time.cluster.stacks import computing_longer, stack_of
from calc.time.kernels.launching import launching
from calc.time.kernels.timing import column_seconds
from calc.time.models.residual import Column
from calc.time.step.activations_on_host import Crossing, crossings
from calc.time.step.bubble import Work, bubble
from calc.time.step.extra_kernels import stepped_parameters, update
from calc.time.step.network import Held, Hidden, Message, between_ranks, hides
from calc.time.step.offloaded import offloaded_seconds
from calc.time.step.one_pass import PassSums, Question, Sums
from calc.time.step.prediction import stretch_of


class Step(NamedTuple):
    """seconds: of a step. bubble: of them, what a stage waits while others fill and empty the pipeline. fixed: what
    the host takes once a step. overhead: by how much computing is longer than its kernels, and the host a micro-batch.
    others: seconds of one micro-batch on all other stages together."""

    seconds: Size
    bubble: Size
    fixed: Size
    overhead: Size
    others: Size


class MicroBatch(NamedTuple):
    """One micro-batch on a stage. plain: seconds of its kernels and open collectives. extra: what comes on top."""

    plain: Size
    extra: Size

    @property
    def seconds(self) -> Size:
        return self.plain + self.extra


def step_of(question: Question, run: Run, each: MicroBatch, last: Size, others: Size, waits: Size) -> Step:
    """A step of which one micro-batch takes `each` on a stage and `others` seconds on all other stages together, for
    which it waits `waits`, and what follows them all `last`."""
    whole = run.trains and not question.within
    launch = question.speed.launch
    fixed = launch.step if launch and whole else 0.0
    passes = run.passes_a_step
    seconds = passes * each.seconds + waits + last + fixed
    return Step(seconds, waits, fixed, passes * each.extra, others)


def extra_seconds(question: Question, run: Run, computing: Size, launched: Size) -> Size:
    """What one micro-batch takes beyond its kernels, of which hosts launch so many, and which compute for so many
    seconds."""
    if not run.trains or question.within:
        return 0.0
    fitted, experts = stack_of(run).fitted, question.spec.has_experts
    device = computing_longer(question.spec, run, question.speed) * computing
    between = fitted.between(experts) * launched
    # A host that falls behind on small products catches up on large ones: of the two, the longer, and both where equal.
    both = (device**2 + between**2) ** 0.5 if fitted.catches_up(experts) else device + between
    return both - computing


class StageSeconds(NamedTuple):
    """What a stage takes. computing: of one micro-batch, its kernels alone. forward, weights: of one micro-batch, what
    goes forward, and products for weights' gradients. last: what follows all micro-batches. sent: of `last`, messages
    that nothing hides. copies: of activations to the host and back, of a micro-batch."""

    micro_batch: MicroBatch
    computing: Size
    forward: Size
    weights: Size
    last: Size
    sent: Size = 0.0
    copies: tuple[Crossing, ...] = ()

    @property
    def work(self) -> Work:
        """What one micro-batch takes."""
        return Work(self.micro_batch.seconds, self.forward, self.weights)


def step_columns(question: Question, run: Run, stage: Stage, one: PassSums, starts: Column) -> Step:
    """A step on each of a column of stages; seconds are nan where a collective of it cannot be.

    run: sizes of the plans as numbers, or as columns as long as those of `stage`. one: the pass of each. starts: where
    in the column the stages of each plan begin.
    """
    import numpy as np

    found = stage_seconds(question, run, stage, one)
    batch = found.micro_batch
    kinds = np.diff(np.append(starts, len(stage.count)))

    def of_pipeline(seconds: Size) -> Column:
        return np.repeat(np.add.reduceat(np.asarray(seconds + 0.0 * stage.first, dtype=float), starts), kinds)

    others = Work(*(of_pipeline(stage.count * each) - each for each in found.work))
    waits = bubble(run, found.work, others, of_pipeline(stage.first * found.weights))
    return step_of(question, run, batch, found.last, others.seconds, waits)


def stage_seconds(question: Question, run: Run, stage: Stage, one: PassSums) -> StageSeconds:
    """What a stage, or each of a column of them, takes of a step; as in `step_columns`."""
    factors = places(question.spec, stage)
    computing = {
        name: maximum(weighed(one.device[name], factors), weighed(one.host[name], factors)) for name in one.device
    }
    total = sum(computing.values())
    each, left = total, dict(computing)
    for name, sums in one.sent.items():
        seconds = weighed(sums, factors)
        own, left = behind_computing(seconds, hides(run, name, question.speed.device), left)
        each = each + seconds - own
    copies: tuple[Crossing, ...] = ()
    if moves(question, run):
        copies = tuple(crossings(run, question.speed.device, stage, one.moved, computing))
        each = each + sum(way.seconds - way.hidden for way in copies)
    last: Size = 0.0
    sent: Size = 0.0
    held = held_on(stage, one)
    if updates(question, run):
        last = _ends(question, run, stage, held) + on_host(question, run, held)
    if communicates(question, run):
        links = links_of(run, question.speed.device)
        messages = [
            (message, _column(message, question, run, links))
            for message in between_ranks(question.spec, run, stage, held, links)
        ]
        for message, seconds, own in hidden(run, stage, left, messages, question.speed.device):
            each, sent = (each, sent + seconds - own) if message.once else (each + seconds - own, sent)
    batch = MicroBatch(each, extra_seconds(question, run, total, weighed(one.launched, factors)))
    return StageSeconds(batch, total, *_parts(batch, computing, one, factors, copies), last + sent, sent, copies)


def _parts(
    batch: MicroBatch, computing: Sums, one: PassSums, factors: Mapping[str, Size], copies: Sequence[Crossing]
) -> tuple[Size, Size]:
    """Of a micro-batch on a stage, what goes forward, and products for weights' gradients: in proportion to computing,
    but that these wait for no messages, and copies to the host go down with forward alone."""
    total = maximum(sum(computing.values()), 1e-30)
    down, *_ = [way.seconds - way.hidden for way in copies] or [0.0]
    alone = batch.seconds - sum(way.seconds - way.hidden for way in copies)
    forward = computing.get("forward", 0.0) / total * alone + down
    back = maximum(weighed(one.device.get("backward", {}), factors), 1e-30)
    weights = weighed(one.weights, factors) / back * computing.get("backward", 0.0)
    return forward, weights * (1 + batch.extra / total)


def updates(question: Question, run: Run) -> bool:
    """Whether sums of gradients and the optimizer are asked for."""
    return run.trains and not question.within and "update" in question.directions


def communicates(question: Question, run: Run) -> bool:
    """Whether what ranks tell each other beside a pass is asked for."""
    return run.trains and not question.within and "network" in question.directions


def moves(question: Question, run: Run) -> bool:
    """Whether what layers keep crosses to the host and back."""
    return run.offload == "activations" and run.trains and not question.within and "network" in question.directions


def places(spec: ModelSpec, stage: Stage) -> Mapping[str, Size]:
    """Place -> what part of all that stands there a micro-batch finds on a stage, the mean where a rank has several;
    `all` is what every stage has."""
    part = 1.0 / stage.stages
    found: dict[str, Size] = {group.name: part * stage.layers[group.name] / group.count for group in spec.layers}
    return found | {"front": part * stage.first, "end": part * stage.last, "all": 1.0}


def held_on(stage: Stage, one: PassSums) -> Held:
    """The parameters of a stage's rank. What the first stage and the last have both (a tied table), one has once."""

    def total(by_place: Sums) -> Size:
        rest = by_place["both"] - by_place["front"] - by_place["end"]
        found = stage.stages * by_place["all"] + stage.first * by_place["front"] + stage.last * by_place["end"]
        found = found + stage.first * stage.last * rest
        for name, layers in stage.layers.items():
            found = found + layers * by_place[name]
        return found

    counted = one.elements, one.trained, one.expert_elements, one.expert_trained, one.narrow, one.expert_narrow
    return Held(*map(total, counted))


def after_all(execution: ExecutionName) -> ExecutionName:
    """How what follows all passes runs: in no graph."""
    return "eager" if execution == "graph" else execution


def behind_computing(seconds: Size, part: Size, left: Mapping[str, Size]) -> tuple[Size, dict[str, Size]]:
    """Of a collective of a pass, the seconds that pass behind computing: `part` of it, and no more than is left of all
    stretches; and what is left then."""
    room = sum(left.values())
    behind = minimum(seconds * part, room)
    share = behind / maximum(room, 1e-30)
    return behind, {name: each * (1 - share) for name, each in left.items()}


def hidden(
    run: Run,
    stage: Stage,
    computing: Mapping[str, Size],
    messages: Iterable[tuple[Message, Size]],
    device: Device | None,
) -> Iterator[tuple[Message, Size, Size]]:
    """Collectives with their seconds, and those of them that pass while a stretch is computing: all but that of one
    layer, which is the first to be gathered or the last to be reduced, less what the cores that they hold take from the
    stretch, and together no more than it lasts."""
    each: dict[Hidden, Size] = {"forward": computing.get("forward", 0.0), "backward": computing.get("backward", 0.0)}
    # Stages in pieces are done with one of them while others still have micro-batches to run, and of two stages a rank
    # ends each behind its own.
    often = either(run.interleave > 1, minimum(run.pp, run.passes_a_step), stage.stages)
    whole: dict[Hidden, Size] = {name: seconds * often for name, seconds in each.items()}
    part = 1 - 1 / (sum(stage.layers.values()) + 1)
    data = hides(run, "data", device)
    for message, seconds in messages:
        behind: Size = 0.0
        if message.behind != "nothing":
            left = whole if message.once else each
            own = part if message.kernel.between == "pipeline" else part * data
            behind = minimum(seconds * own, left[message.behind])
            left[message.behind] = left[message.behind] - behind
        yield message, seconds, behind


def weighed(sums: Sums, factors: Mapping[str, Size]) -> Size:
    """What a stage has of sums by place."""
    total: Size = 0.0
    for place, seconds in sums.items():
        total = total + factors[place] * seconds
    return total


def _column(message: Message, question: Question, run: Run, links: Links) -> Size:
    """Seconds of all calls of a collective in a pass, or in a step."""
    kernel = message.kernel
    speed = with_measured(question.speed, run.cluster)
    seconds = column_seconds(kernel, speed, run.execution or "sdpa", links.share)
    return either(kernel.calls > 0, kernel.calls * seconds) if is_array(kernel.calls) else kernel.calls * seconds


def on_host(question: Question, run: Run, held: Held) -> Size:
    """Seconds of what the host updates at the end of a step."""
    if not run.offloaded:
        return 0.0
    return offloaded_seconds(run, question.speed.device, stepped_parameters(run, held)).seconds


def _ends(question: Question, run: Run, stage: Stage, held: Held) -> Size:
    """Seconds of what follows all passes."""
    device: dict[str, Size] = {}
    host: dict[str, Size] = {}
    execution = run.execution or "sdpa"
    for kernel in update(question.spec, run, stage, held):
        seconds = column_seconds(kernel, question.speed, execution, None)
        gap, each = launching(kernel, seconds, question.speed, after_all(execution))
        stretch = stretch_of(kernel.direction)
        device[stretch] = device.get(stretch, 0.0) + kernel.calls * (seconds + gap)
        host[stretch] = host.get(stretch, 0.0) + kernel.calls * each
    total: Size = 0.0
    for stretch, seconds in device.items():
        total = total + maximum(seconds, host[stretch])
    return total
