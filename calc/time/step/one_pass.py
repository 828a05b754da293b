"""One pass through a whole model on one rank: its kernels with their times, and sums of these by where they stand.

All that the data-parallel ranks, the stages of a pipeline and the number of micro-batches leave alone. A search over
plans asks for the same few passes again and again, so the last ones are remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from calc.memory.sharding import Stage
from calc.memory.states import states
from calc.sizes import Size
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.spec.same import Same
from calc.time.cluster.links import links_of
from calc.time.cluster.measured import with_measured
from calc.time.device.speed import Speed
from calc.time.kernels.kernel import Direction, Kernel
from calc.time.kernels.launching import launching
from calc.time.kernels.timing import Timing, time_of
from calc.time.step.extra_kernels import around
from calc.time.step.mfu import model_flops
from calc.time.step.network import between_of, between_ops, expert_share
from calc.time.step.operations import operations
from calc.time.step.prediction import stretch_of
from calc.trace.functions import Matmul

MOST = 256
"""Passes that are remembered."""
BETWEEN = ("dp", "pp", "zero", "interleave", "micro_batches", "stages", "optimizer", "shard", "schedule", "stack")
"""Words of a run that no pass depends on."""
WORDS = tuple(name for name in Run.model_fields if name not in BETWEEN)
OF_STACK = ("attention", "joins", "once_a_rank", "product_an_expert")
"""What of a stack a pass depends on."""


class Question(NamedTuple):
    """What is asked of which model and device; as in `calc.time.predict`."""

    spec: ModelSpec
    speed: Speed
    within: str
    directions: tuple[Direction, ...]
    level: float


Sums = Mapping[str, Size]
"""Place (a group of layers, `front`, `end`) -> seconds or numbers of all that stands there."""


@dataclass(frozen=True, slots=True)
class PassSums:
    """What a pass takes by place; in every number a column where there are many passes.

    device, host: seconds by stretch (`calc.time.step.prediction`) and place. sent: of collectives between ops, by
    which ranks they are between, and place. launched: kernels by place.
    elements, trained: parameters of a rank: of one layer of each group, of the first and of the last stage of several
    (`front`, `end`), of one that is both (`both`), and what every stage has (`all`). experts: the part of them in
    experts that are spread over ranks. flops: of the model, as `convention` counts them for MFU.
    """

    device: Mapping[str, Sums]
    host: Mapping[str, Sums]
    sent: Mapping[str, Sums]
    launched: Sums
    elements: Sums
    trained: Sums
    experts: Size
    flops: Size
    convention: str


class Pass(NamedTuple):
    """kernels, messages: of the whole model, with the time of one call; sums: of their times."""

    kernels: tuple[tuple[Kernel, Timing], ...]
    messages: tuple[tuple[Kernel, Timing], ...]
    sums: PassSums


_KNOWN: OrderedDict[Any, Pass] = OrderedDict()


def passes(question: Question, runs: Sequence[Run]) -> list[Pass]:
    """One pass of each of `runs`, whose sizes are numbers. What is not remembered is asked of the models all at once.

    Errors: Refused as `calc.time.predict`.
    """
    own = (Same(question.spec), Same(question.speed), question.within, question.directions, question.level)
    keys = [
        (
            own,
            None if run.stack is None else tuple(getattr(run.stack, name) for name in OF_STACK),
            *(getattr(run, name) for name in WORDS),
        )
        for run in runs
    ]
    found = {key: _KNOWN[key] for key in keys if key in _KNOWN}
    new = {key: run for key, run in zip(keys, runs, strict=True) if key not in found}
    found |= dict(zip(new, _worked_out(question, list(new.values())), strict=True))
    for key, each in found.items():
        _KNOWN[key] = each
        _KNOWN.move_to_end(key)
    while len(_KNOWN) > MOST:
        _KNOWN.popitem(last=False)
    return [found[key] for key in keys]


def _worked_out(question: Question, runs: Sequence[Run]) -> list[Pass]:
    laid = [(_kernels(question, run), _messages(question, run)) for run in runs]
    every = [kernel for kernels, messages in laid for kernel in (*kernels, *messages)]
    if not runs:
        return []
    execution, network = runs[0].execution or "sdpa", links_of(runs[0]).share
    speed = with_measured(question.speed, runs[0].cluster)
    timings = iter(time_of(every, speed, execution, question.level, network))
    found = []
    for run, (kernels, messages) in zip(runs, laid, strict=True):
        timed = tuple((kernel, next(timings)) for kernel in kernels)
        sent = tuple((kernel, next(timings)) for kernel in messages)
        found.append(Pass(timed, sent, _sums(question, run, timed, sent)))
    return found


def _kernels(question: Question, run: Run) -> list[Kernel]:
    within, directions = question.within, question.directions
    everything = around(operations(question.spec, run), question.spec, run)
    some = [kernel for kernel in everything if kernel.direction in directions]
    return [kernel for kernel in some if not within or f"{kernel.path}.".startswith(f"{within}.")]


def _messages(question: Question, run: Run) -> list[Kernel]:
    if "network" not in question.directions:
        return []
    return [kernel for kernel in between_ops(question.spec, run) if kernel.path.startswith(question.within)]


def _sums(
    question: Question, run: Run, kernels: Sequence[tuple[Kernel, Timing]], messages: Sequence[tuple[Kernel, Timing]]
) -> PassSums:
    device: dict[str, dict[str, float]] = {}
    host: dict[str, dict[str, float]] = {}
    launched: dict[str, float] = {}
    execution = run.execution or "sdpa"
    joins = run.stack is not None and run.stack.joins
    for kernel, timing in kernels:
        if not (joins and kernel.again):
            launched[kernel.place] = launched.get(kernel.place, 0.0) + kernel.calls * _launches(kernel, run)
        gap, each = launching(kernel, question.speed, execution)
        stretch = stretch_of(kernel.direction)
        for table, seconds in ((device, timing.seconds + gap), (host, each)):
            places = table.setdefault(stretch, {})
            places[kernel.place] = places.get(kernel.place, 0.0) + kernel.calls * seconds
    sent: dict[str, dict[str, float]] = {}
    for kernel, timing in messages:
        between = sent.setdefault(between_of(kernel), {})
        between[kernel.place] = between.get(kernel.place, 0.0) + kernel.calls * timing.seconds
    elements, trained = _held(question.spec, run)
    experts = expert_share(question.spec) if run.ep > 1 else 0.0
    counted = model_flops(question.spec, run) if not question.within and run.phase != "decode" else (0.0, "")
    return PassSums(device, host, sent, launched, elements, trained, experts, *counted)


def _launches(kernel: Kernel, run: Run) -> float:
    """Kernels that a stack launches for one: of experts' products, one for each expert where it groups none."""
    one_each = run.stack is not None and run.stack.product_an_expert and kernel.routed is not None
    groups = float(kernel.shape.groups) if one_each and isinstance(kernel.shape, Matmul) else 1.0
    return max(kernel.launches, groups)


def _held(spec: ModelSpec, run: Run) -> tuple[Sums, Sums]:
    """Parameters by place, all and those that are trained: differences between stages that differ in one."""
    none = {group.name: 0 for group in spec.layers}
    cut = [Stage("", none, False, False), *(Stage("", none | {name: 1}, False, False) for name in none)]
    cut += [Stage("", none, True, False), Stage("", none, False, True), Stage("", none, True, True)]
    held = states(spec, run, cut)
    places = ("all", *none, "front", "end", "both")
    every, trained = ([getattr(each, field) for each in held] for field in ("elements", "trained"))
    return tuple(
        {place: count - (counts[0] if place != "all" else 0) for place, count in zip(places, counts, strict=True)}
        for counts in (every, trained)
    )  # pyright: ignore[reportReturnType] (two of them)
