"""One case measured on both sides at once: several processes each, sampled in turn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import Literal

from calc.spec.fields import DeviceKind
from harness.cases.case import Case
from harness.gating.children import Failed, Nursery, Process
from harness.gating.decision import Session

Clock = Literal["cpu", "wall"]
PLANTABLE = 20
"""A batch of a multiple of this many executions can be made longer by 15 %, and by any other multiple of 5 %."""


@dataclass(frozen=True)
class Effort:
    """processes: on each side. rounds: samples of each. seconds: of one sample; warmup: of executing before them."""

    processes: int = 6
    rounds: int = 7
    seconds: float = 0.02
    warmup: float = 0.1


@dataclass(frozen=True)
class Sides:
    """A, B: the trees. planted: by what part B is made slower on purpose, a multiple of 0.05.

    clock: `wall`, or `cpu`, the time that a process computes: what others take from it meanwhile is not in that, and
    neither is what it waits for itself.
    """

    a: Nursery
    b: Nursery
    device: DeviceKind = "cpu"
    planted: float = 0.0
    clock: Clock = "cpu"


class Broken(Exception):
    """A case that one side cannot run. side: A or B. unsupported: it says so itself."""

    def __init__(self, side: str, why: Failed) -> None:
        super().__init__(f"{side}: {why}")
        self.side = side
        self.unsupported = why.unsupported


def measure(case: Case, sides: Sides, effort: Effort) -> Session:
    """Seconds of every process in every round. Errors: Broken."""
    named = [("A", sides.a.fork()) for _ in range(effort.processes)]
    named += [("B", sides.b.fork()) for _ in range(effort.processes)]
    try:
        _all(named, "ready", kind=case.kind, params=case.params, device=sides.device, clock=sides.clock)
        # One after the other: what is measured then is what a sample will take.
        single = median(_ask(each, "warm", seconds=effort.warmup) for each in named)
        batch = max(1, math.ceil(effort.seconds / single))
        if sides.planted:
            batch = math.ceil(batch / PLANTABLE) * PLANTABLE
        extra = round(batch * sides.planted)
        found: list[list[float]] = [[] for _ in named]
        for number in range(effort.rounds):
            for place in order(effort.processes, number):
                more = extra if named[place][0] == "B" else 0
                found[place].append(_ask(named[place], "sample", batch=batch, extra=more))
    finally:
        for _, process in named:
            with suppress(OSError):
                process.close()
    return found[: effort.processes], found[effort.processes :]


def order(processes: int, number: int) -> Sequence[int]:
    """The order of a round: A B B A A B B A …, and every other round from behind, so that what drifts hits both."""
    turns = [(i, i + processes) if i % 2 == 0 else (i + processes, i) for i in range(processes)]
    places = [place for pair in turns for place in pair]
    return places[::-1] if number % 2 else places


def _ask(named: tuple[str, Process], do: str, **request: object) -> float:
    try:
        return named[1].ask(do, **request)
    except Failed as why:
        raise Broken(named[0], why) from None


def _all(named: Sequence[tuple[str, Process]], do: str, **request: object) -> None:
    """The same of all at once."""
    for _, process in named:
        process.send(do, **request)
    for side, process in named:
        try:
            process.receive()
        except Failed as why:
            raise Broken(side, why) from None
