"""Kernels of passes with their times: of what passes have in common, each is made and asked of the models once.

How ranks divide a model changes a part of its kernels alone: experts' ranks those of experts, and checkpointing what
runs once more. A search over plans asks for all of them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from calc.spec import ModelSpec
from calc.spec.cache_key import CacheKey
from calc.spec.run import Run
from calc.time.cluster.links import links_of
from calc.time.cluster.measured import with_measured
from calc.time.device.speed import Speed
from calc.time.kernels.kernel import Direction, Kernel
from calc.time.kernels.timing import Timing, time_of
from calc.time.step.extra_kernels import around
from calc.time.step.kernel_costs import Timed, Totals, kernel_cost
from calc.time.step.network import after_op, times_run
from calc.time.step.operations import ChainRun, Operations
from calc.time.step.record import record_of
from calc.trace.part import Leaf

MOST = 2**16
"""Chains that are remembered of all records together."""
MOST_COMMON = 2**11
"""Ways to divide a model whose passes remember what they have in common."""
OF_RANKS = ("tp", "cp", "ep", "sequence_parallel")
"""Words by which ranks divide a model."""
Messages = tuple[tuple[Kernel, Timing], ...]


class Question(NamedTuple):
    """What is asked of which model and device; as in `calc.time.predict`."""

    spec: ModelSpec
    speed: Speed
    within: str
    directions: tuple[Direction, ...]
    level: float


@dataclass(slots=True)
class Common:
    """What all passes have in common that differ in what is recomputed alone.

    laid: how ranks divide the model's ops. known: chains with what they take, those of other divisions among them.
    ahead, back: the chains that run forward, and that go back. totals: what they take. messages: an op's id and how
    often a pass runs it or goes back through it -> what ranks send one another after it, with the time of one call.
    senders: the ops after which they send anything, once they are known.
    """

    laid: Operations
    known: dict[Any, Timed]
    ahead: list[Timed] = field(default_factory=list)
    back: list[Timed] = field(default_factory=list)
    senders: list[Leaf] | None = None
    totals: Totals = field(default_factory=Totals)
    messages: dict[tuple[int, float], Messages] = field(default_factory=dict)


class TimedPass(NamedTuple):
    """One pass: what it has in common with others, the chains that it runs once more, and its messages with the time of
    one call."""

    common: Common
    again: list[Timed]
    messages: Messages

    @property
    def chains(self) -> Iterator[Timed]:
        """All chains in the order they run."""
        yield from (*self.common.ahead, *self.again, *self.common.back)

    @property
    def totals(self) -> Totals:
        """What all chains take."""
        return self.common.totals.with_chains(self.again) if self.again else self.common.totals


KNOWN: dict[Any, dict[Any, Timed]] = {}
"""A record and what a pass depends on beside ranks -> what identifies a chain's run -> what it takes."""
COMMON: dict[Any, Common] = {}
"""The same with how ranks divide the model -> what passes have in common."""


def forget() -> None:
    """Nothing is remembered any more."""
    KNOWN.clear()
    COMMON.clear()


def timed_passes(question: Question, runs: Sequence[Run], words: Sequence[Mapping[str, Any]]) -> list[TimedPass]:
    """One pass of each of `runs`. words: of each, what its kernels depend on beside how ranks divide the model and what
    is recomputed. What is not known yet is asked of the models all at once.

    Errors: Refused as `calc.time.predict`.
    """
    if sum(map(len, KNOWN.values())) > MOST or len(COMMON) > MOST_COMMON:
        forget()
    asked = _Asked(question)
    begun = [asked.begin(run, own) for run, own in zip(runs, words, strict=True)]
    asked.answer(runs[0])
    for common, ahead, _, back, _ in begun:
        if not common.ahead:
            common.ahead, common.back = [common.known[key] for key in ahead], [common.known[key] for key in back]
            common.totals = Totals().with_chains((*common.ahead, *common.back))
    COMMON.update(asked.common)
    return [
        TimedPass(
            common, [common.known[key] for key in again], tuple(one for key in sent for one in common.messages[key])
        )
        for common, _, again, _, sent in begun
    ]


class _Begun(NamedTuple):
    """A pass whose kernels are not timed yet: what it has in common with others, the keys of its chains, and those of
    its messages."""

    common: Common
    ahead: list[Any]
    again: list[Any]
    back: list[Any]
    sent: list[tuple[int, float]]


class _Asked:
    """What is to be asked of the models for several passes. common: what is begun of what passes have in common; new:
    chains that no pass had before, and messages: their places and how often they are sent."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.common: dict[Any, Common] = {}
        self.new: dict[tuple[int, Any], tuple[Common, Any, Run, list[Kernel]]] = {}
        self.messages: dict[tuple[int, Any], tuple[Common, tuple[int, float], list[Kernel]]] = {}

    def begin(self, run: Run, own: Mapping[str, Any]) -> _Begun:
        """One pass: all that is not known of it is put down to be asked."""
        record = record_of(self.question.spec, run)
        beside = CacheKey(record), *own.values()
        whole = *beside, *(getattr(run, name) for name in OF_RANKS)
        common = COMMON.get(whole) or self.common.get(whole)
        if common is None:
            laid = Operations(run, record, self.question.speed.kind != "cpu")
            common = self.common[whole] = Common(laid, KNOWN.setdefault(beside, {}))
        laid, whole_known = common.laid, bool(common.ahead)
        ahead, again, back = (
            [self._chain(common, run, each) for each in some]
            for some in ([] if whole_known else laid.ahead(), laid.again(run), [] if whole_known else laid.back())
        )
        return _Begun(common, ahead, again, back, self._sent(common, run))

    def _chain(self, common: Common, run: Run, each: ChainRun) -> Any:
        if each.key not in common.known and (id(common.known), each.key) not in self.new:
            kernels = _kernels(self.question, run, common.laid, each)
            self.new[id(common.known), each.key] = common, each.key, run, kernels
        return each.key

    def _sent(self, common: Common, run: Run) -> list[tuple[int, float]]:
        """The keys of a pass's messages."""
        if "network" not in self.question.directions:
            return []
        spec, links = self.question.spec, links_of(run, self.question.speed.device)
        found: dict[tuple[int, float], Leaf] = {}
        for leaf, times in times_run(common.laid.record.leaves if common.senders is None else common.senders, run):
            key = id(leaf), times
            if key not in common.messages and (id(common), key) not in self.messages:
                some = [one for one in after_op(leaf, spec, run, links, times) if one.stands_in(self.question.within)]
                if not some:
                    continue
                self.messages[id(common), key] = common, key, some
            found[key] = leaf
        common.senders = list(found.values())
        return list(found)

    def answer(self, run: Run) -> None:
        """Everything that was put down is asked of the models, and remembered. run: one of all."""
        question = self.question
        every = [kernel for *_, kernels in self.new.values() for kernel in kernels]
        every += [kernel for *_, some in self.messages.values() for kernel in some]
        execution, network = run.execution or "sdpa", links_of(run, question.speed.device).share
        timings = iter(time_of(every, with_measured(question.speed, run.cluster), execution, question.level, network))
        for common, key, its, kernels in self.new.values():
            timed = tuple((kernel, next(timings)) for kernel in kernels)
            common.known[key] = Timed(timed, tuple(kernel_cost(question.speed, its, *one) for one in timed))
        for common, key, some in self.messages.values():
            common.messages[key] = tuple((kernel, next(timings)) for kernel in some)


def _kernels(question: Question, run: Run, laid: Operations, each: ChainRun) -> list[Kernel]:
    """A chain's kernels and what runs beside them, of those that are asked for."""
    some = [one for one in around(laid.kernels(each), question.spec, run) if one.direction in question.directions]
    return [kernel for kernel in some if kernel.stands_in(question.within)]
