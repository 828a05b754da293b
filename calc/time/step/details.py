"""What a predicted step is made of: every kernel of its slowest stage with its part of the seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from calc.memory.sharding import Stage
from calc.spec.hardware import Device
from calc.spec.run import Run
from calc.time.cluster.links import links_of
from calc.time.device.priors import factors, scaled
from calc.time.kernels.kernel import Kernel
from calc.time.kernels.timing import Timing, time_of
from calc.time.step.activations_on_host import crossings
from calc.time.step.extra_kernels import stepped_parameters, update
from calc.time.step.formats import number_formats
from calc.time.step.limits import least_seconds, stopped
from calc.time.step.network import WITHIN_A_PASS, Held, Message, between_ranks, hides
from calc.time.step.notes import notes, of_memory
from calc.time.step.offloaded import offloaded_seconds
from calc.time.step.one_pass import Pass, Question
from calc.time.step.prediction import ON_HOST, Details, Row, Stretch, combined, stretches
from calc.time.step.recomputation import room_of
from calc.time.step.step import (
    MicroBatch,
    Step,
    after_all,
    behind_computing,
    communicates,
    extra_seconds,
    held_on,
    hidden,
    moves,
    places,
    step_of,
    updates,
    weighed,
)

Timed = tuple[Kernel, Timing]


def details(question: Question, run: Run, stage: Stage, one: Pass, others: float, waits: float) -> Details:
    """The kernels of a step on one stage, with their seconds, and what follows from them. others: seconds of one
    micro-batch on all other stages of a pipeline together; waits: what the stage waits for these.

    Errors: Refused for a collective of which nothing is known.
    """
    speed, execution = question.speed, run.execution or "sdpa"
    parts = stretches(*_columns(_on(question, stage, one.kernels)), speed, execution)
    held = held_on(stage, one.sums)
    last = list(update(question.spec, run, stage, held)) if updates(question, run) else []
    links = links_of(run, speed.device)
    messages: list[Message] = []
    if communicates(question, run):
        messages = list(between_ranks(question.spec, run, stage, held, links))
    both = [*last, *(message.kernel for message in messages)]
    timings = time_of(both, speed, execution, question.level, links.share)
    ends = stretches(last, timings[: len(last)], speed, after_all(execution))
    ends += [_on_host(question, run, held)] if updates(question, run) and run.offloaded else []
    computing = {part.name: part.seconds for part in parts}
    total = sum(computing.values())
    moved = _copied(question, run, stage, one, computing) if moves(question, run) else []
    within, computing = _within(run, computing, list(_on(question, stage, one.messages)), speed.device)
    between = list(zip(messages, timings[len(last) :], strict=True))
    sent = [*moved, *within, *_communication(run, stage, computing, between, speed.device)]
    each = total + sum(row.seconds - row.hidden for message, row in sent if not message.once)
    after = sum(part.seconds for part in ends) + sum(row.seconds - row.hidden for message, row in sent if message.once)
    launched = weighed(one.sums.launched, places(question.spec, stage))
    batch = MicroBatch(each, extra_seconds(question, run, total, launched))
    even = (batch.seconds + others) / run.pp / batch.seconds if batch.seconds else 1.0
    step = step_of(question, run, batch, after, others, waits)
    found = _summed(question, run, step, parts, ends, sent)
    least = least_seconds(run, speed, one.sums, found.kernels, not question.within)
    return found._replace(interval=stopped(found.interval, step.seconds, least), even=even)


def _summed(
    question: Question, run: Run, step: Step, parts: list[Stretch], ends: list[Stretch], sent: list[tuple[Message, Row]]
) -> Details:
    """Rows of a whole step, and their sums by component."""
    seconds, times = step.seconds, run.passes_a_step
    device = question.speed.device
    held = room_of(question.spec, run, device)
    rows = [_scaled(row, part, times) for part in parts for row in part.rows]
    rows += [_scaled(row, part, 1) for part in ends for row in part.rows]
    rows += [_repeated(row, 1 if message.once else times) for message, row in sent]
    rows = [replace(row, share=max(row.seconds - row.hidden, 0.0) / seconds) for row in rows]
    by_component: dict[str, float] = {}
    for row in rows:
        name = row.kernel.component
        by_component[name] = by_component.get(name, 0.0) + row.share * seconds
    extra = {"bubble": step.bubble, "host": step.fixed, "overhead": step.overhead}
    by_component |= {name: value for name, value in extra.items() if value > 0}
    return Details(
        kernels=tuple(rows),
        interval=combined(seconds, rows, question.speed, question.level),
        by_component=dict(sorted(by_component.items(), key=lambda item: -item[1])),
        memory=held,
        notes=(*of_memory(held), *notes(rows, question.speed, run)),
    )


def _on(question: Question, stage: Stage, timed: Sequence[Timed]) -> Iterator[Timed]:
    """Of kernels of the whole model those of a stage."""
    factors = places(question.spec, stage)
    for kernel, timing in timed:
        part = factors[kernel.place]
        if part:
            yield kernel if part == 1 else kernel._replace(calls=kernel.calls * part), timing


def _on_host(question: Question, run: Run, held: Held) -> Stretch:
    """What the host updates, as one row."""
    found = offloaded_seconds(run, question.speed.device, stepped_parameters(run, held))
    below, above = scaled((found.low, found.high), question.level)
    seconds = float(found.seconds)
    timing = Timing(seconds, seconds * below, seconds * above, question.level, "host", "prior")
    kernel = Kernel("optimizer.host", "optimizer", ON_HOST, "update", "fp32")
    return Stretch("host", (Row(kernel, timing, seconds, 0.0),), seconds, 0.0)


def _copied(
    question: Question, run: Run, stage: Stage, one: Pass, computing: dict[str, float]
) -> list[tuple[Message, Row]]:
    """What layers keep, down to the host and up again, a row a way."""
    found: list[tuple[Message, Row]] = []
    below, above = scaled(factors("host_copies"), question.level)
    for way in crossings(run, question.speed.device, stage, one.sums.moved, computing):
        seconds = float(way.seconds)
        timing = Timing(seconds, seconds * below, seconds * above, question.level, "host", "prior")
        dtype, size = number_formats(run).compute, one.sums.moved
        kernel = Kernel(f"activations.{way.way}", "offload", ON_HOST, way.during, dtype, bytes=size)
        found.append((Message(kernel, "nothing"), Row(kernel, timing, seconds, 0.0, hidden=float(way.hidden))))
    return found


def _columns(timed: Iterator[Timed]) -> tuple[list[Kernel], list[Timing]]:
    pairs = list(timed)
    return [kernel for kernel, _ in pairs], [timing for _, timing in pairs]


def _within(
    run: Run, computing: dict[str, float], timed: Sequence[Timed], device: Device | None
) -> tuple[list[tuple[Message, Row]], dict[str, float]]:
    """The collectives of a pass with what of each computing hides, and the computing that is left."""
    found: list[tuple[Message, Row]] = []
    for name in WITHIN_A_PASS:
        own = [(kernel, time) for kernel, time in timed if kernel.between == name]
        seconds = sum(kernel.calls * time.seconds for kernel, time in own)
        behind, computing = behind_computing(seconds, hides(run, name, device), computing)
        part = behind / seconds if seconds else 0.0
        for kernel, time in own:
            each = kernel.calls * time.seconds
            found.append((Message(kernel, "nothing"), Row(kernel, time, each, 0.0, hidden=each * part)))
    return found, computing


def _communication(
    run: Run,
    stage: Stage,
    computing: dict[str, float],
    messages: Sequence[tuple[Message, Timing]],
    device: Device | None,
) -> list[tuple[Message, Row]]:
    """The collectives between stages and replicas, with what of each passes while something else runs."""
    seconds = [(message, message.kernel.calls * time.seconds) for message, time in messages]
    shown = zip(hidden(run, stage, computing, seconds, device), messages, strict=True)
    return [
        (message, Row(message.kernel, time, each, 0.0, hidden=behind)) for (message, each, behind), (_, time) in shown
    ]


def _scaled(row: Row, part: Stretch, times: int) -> Row:
    """A kernel's part of its stretch, times as many passes: where the host is slower, its part of the host's time."""
    if part.host > part.device:
        return replace(row, seconds=row.dispatch * times, dispatch=row.dispatch * times)
    return replace(row, seconds=row.seconds * times, dispatch=0.0)


def _repeated(row: Row, times: int) -> Row:
    return replace(row, seconds=row.seconds * times, hidden=row.hidden * times)
