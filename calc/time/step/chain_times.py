"""Kernels of passes with their times: of what passes have in common, each is made and asked of the models once.

How ranks divide a model changes a part of its kernels alone: experts' ranks those of experts, and checkpointing what
runs once more. A search over plans asks for all of them together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from calc.spec import ModelSpec
from calc.spec.cache_key import CacheKey
from calc.spec.run import Run
from calc.time.cluster.links import links_of
from calc.time.cluster.measured import with_measured
from calc.time.device.speed import Speed
from calc.time.kernels.kernel import Direction, Kernel
from calc.time.kernels.launching import launching
from calc.time.kernels.timing import Timing, time_of
from calc.time.step.extra_kernels import around
from calc.time.step.network import between_ops
from calc.time.step.operations import ChainRun, Operations
from calc.time.step.prediction import stretch_of
from calc.time.step.record import record_of
from calc.trace.functions import Matmul

MOST = 2**16
"""Chains that are remembered of all records together."""


class Question(NamedTuple):
    """What is asked of which model and device; as in `calc.time.predict`."""

    spec: ModelSpec
    speed: Speed
    within: str
    directions: tuple[Direction, ...]
    level: float


class Takes(NamedTuple):
    """What all calls of one kernel take: seconds of the device and of the host, and kernels that are launched, None
    where a stack runs it within another."""

    stretch: str
    place: str
    device: float
    host: float
    launched: float | None


class Timed(NamedTuple):
    """The kernels of a chain, with what runs beside them, and what each takes."""

    kernels: tuple[tuple[Kernel, Timing], ...]
    takes: tuple[Takes, ...]


class TimedPass(NamedTuple):
    """The chains of one pass in the order they run, and its messages with the time of one call."""

    chains: list[Timed]
    messages: tuple[tuple[Kernel, Timing], ...]


KNOWN: dict[Any, dict[Any, Timed]] = {}
"""A record and what a pass depends on beside ranks -> what identifies a chain's run -> what it takes."""


def timed_passes(question: Question, runs: Sequence[Run], words: Sequence[Mapping[str, Any]]) -> list[TimedPass]:
    """One pass of each of `runs`. words: of each, what its kernels depend on beside how ranks divide the model and what
    is recomputed. What is not known yet is asked of the models all at once.

    Errors: Refused as `calc.time.predict`.
    """
    if sum(map(len, KNOWN.values())) > MOST:
        KNOWN.clear()
    wanted: list[tuple[dict[Any, Timed], list[Any]]] = []
    new: dict[Any, tuple[dict[Any, Timed], Any, Run, list[Kernel]]] = {}
    for run, own in zip(runs, words, strict=True):
        record = record_of(question.spec, run)
        known = KNOWN.setdefault((CacheKey(record), *own.values()), {})
        laid, keys = Operations(run, record, question.speed.kind != "cpu"), []
        for each in laid.chain_runs():
            keys.append(each.key)
            if each.key not in known and (id(known), each.key) not in new:
                new[id(known), each.key] = known, each.key, run, _kernels(question, run, laid, each)
        wanted.append((known, keys))
    messages = [_messages(question, run) for run in runs]
    every = [kernel for *_, kernels in new.values() for kernel in kernels]
    every += [kernel for some in messages for kernel in some]
    execution, network = runs[0].execution or "sdpa", links_of(runs[0], question.speed.device).share
    timings = iter(time_of(every, with_measured(question.speed, runs[0].cluster), execution, question.level, network))
    for known, key, run, kernels in new.values():
        timed = tuple((kernel, next(timings)) for kernel in kernels)
        known[key] = Timed(timed, tuple(_takes(question, run, *one) for one in timed))
    return [
        TimedPass([known[key] for key in keys], tuple((kernel, next(timings)) for kernel in some))
        for (known, keys), some in zip(wanted, messages, strict=True)
    ]


def _kernels(question: Question, run: Run, laid: Operations, each: ChainRun) -> list[Kernel]:
    """A chain's kernels and what runs beside them, of those that are asked for."""
    some = [one for one in around(laid.kernels(each), question.spec, run) if one.direction in question.directions]
    return [kernel for kernel in some if kernel.stands_in(question.within)]


def _messages(question: Question, run: Run) -> list[Kernel]:
    if "network" not in question.directions:
        return []
    links = links_of(run, question.speed.device)
    return [kernel for kernel in between_ops(question.spec, run, links) if kernel.stands_in(question.within)]


def _takes(question: Question, run: Run, kernel: Kernel, timing: Timing) -> Takes:
    gap, each = launching(kernel, timing.seconds, question.speed, run.execution or "sdpa")
    joined = run.stack is not None and run.stack.joins and kernel.again
    launched = None if joined else kernel.calls * _launches(kernel, run)
    seconds = kernel.calls * (timing.seconds + gap)
    return Takes(stretch_of(kernel.direction), kernel.place, seconds, kernel.calls * each, launched)


def _launches(kernel: Kernel, run: Run) -> float:
    """Kernels that a stack launches for one: of experts' products, one for each expert where it groups none."""
    one_each = run.stack is not None and run.stack.product_an_expert and kernel.routed is not None
    groups = float(kernel.shape.groups) if one_each and isinstance(kernel.shape, Matmul) else 1.0
    return max(kernel.launches, groups)
