"""Two sets of results against each other: two devices, two commits or two folders, case by case."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from calc.errors import Refused, did_you_mean
from harness.record import Run

Verdict = Literal["SAME", "FASTER", "SLOWER"]
Kind = Literal["folder", "device", "commit"]
_LEAST_COMMIT = 4
"""Digits that name a commit."""


@dataclass(frozen=True)
class Side:
    """One of the two: what it is, its name, and the latest `ok` run of each case."""

    kind: Kind
    name: str
    runs: dict[str, Run]


@dataclass(frozen=True)
class Change:
    """One case on both sides. ratio: seconds of B over those of A; low, high: the most that both intervals allow."""

    case: str
    kind: str
    before: float
    after: float
    low: float
    high: float
    verdict: Verdict

    @property
    def ratio(self) -> float:
        return self.after / self.before


@dataclass(frozen=True)
class Difference:
    """All cases that both sides have, slowest change first. only_a, only_b: how many others each has."""

    a: Side
    b: Side
    changes: tuple[Change, ...]
    only_a: int
    only_b: int

    def count(self, verdict: Verdict) -> int:
        """How many cases came out so."""
        return sum(change.verdict == verdict for change in self.changes)

    @property
    def ratio(self) -> float:
        """The geometric mean of all ratios."""
        return math.exp(sum(math.log(change.ratio) for change in self.changes) / len(self.changes))


def side(reference: str, runs: Sequence[Run], read: Callable[[Path], list[Run]]) -> Side:
    """What `reference` names: a folder of results, a device or a commit of `runs`, or the beginning of one.

    read: reads a folder. Errors: Refused for what names none, for a beginning of several, and for runs of more than one
    device, whose times say nothing of each other.
    """
    if not reference:
        raise Refused("A, B", "a folder of results, a device or a commit", "nothing")
    if Path(reference).is_dir():
        return _one_device("folder", reference, read(Path(reference)))
    known: tuple[tuple[Kind, list[str]], ...] = (("device", _devices(runs)), ("commit", _commits(runs)))
    for kind, names in known:
        found = [reference] if reference in names else [name for name in names if name.startswith(reference)]
        if len(found) > 1:
            raise Refused(reference, f"one {kind}", f"the beginning of {', '.join(found[:4])}")
        if found and (kind == "device" or len(reference) >= _LEAST_COMMIT):
            own = [run for run in runs if found[0] in (run.environment.slug, run.environment.commit)]
            return _one_device(kind, found[0], own)
    names = [name for _, names in known for name in names]
    hint = did_you_mean(reference, names) or (f" ({', '.join(names[:6])})" if names else "")
    raise Refused(reference[:80], f"a folder of results, or a device or a commit that has results{hint}", "none")


def _one_device(kind: Kind, name: str, runs: Sequence[Run]) -> Side:
    devices = _devices(runs)
    if len(devices) > 1:
        raise Refused(name[:80], "runs of one device, which --device chooses", ", ".join(devices[:4]))
    return Side(kind, name, latest(runs))


def latest(runs: Iterable[Run]) -> dict[str, Run]:
    """The latest measured run of each case."""
    ordered = sorted(runs, key=lambda run: run.started)
    return {run.case: run for run in ordered if run.status == "ok" and run.measurement is not None}


def difference(a: Side, b: Side, least: float = 0.0) -> Difference:
    """Case by case. least: the relative change below which two times are the SAME, whatever their intervals.

    A case is FASTER or SLOWER where the intervals of its medians do not meet either. Errors: Refused where no case is
    on both sides.
    """
    both = a.runs.keys() & b.runs.keys()
    if not both:
        raise Refused(f"{a.name}, {b.name}", "runs of the same case on both sides", "no such case")
    changes = [_change(a.runs[case], b.runs[case], least) for case in both]
    changes.sort(key=lambda change: (-change.ratio, change.case))
    return Difference(a, b, tuple(changes), len(a.runs) - len(both), len(b.runs) - len(both))


def _change(a: Run, b: Run, least: float) -> Change:
    before, after = a.measurement, b.measurement
    assert before is not None
    assert after is not None
    low, high = after.low / before.high, after.high / before.low
    ratio = after.seconds / before.seconds
    verdict: Verdict = "SAME"
    if low > 1 and ratio > 1 + least:
        verdict = "SLOWER"
    elif high < 1 and ratio < 1 / (1 + least):
        verdict = "FASTER"
    return Change(a.case, a.kind, before.seconds, after.seconds, low, high, verdict)


def _devices(runs: Iterable[Run]) -> list[str]:
    return sorted({run.environment.slug for run in runs})


def _commits(runs: Iterable[Run]) -> list[str]:
    return sorted({run.environment.commit for run in runs if run.environment.commit})
