"""How measured times moved from commit to commit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.diff import latest
from harness.record import Run


@dataclass(frozen=True)
class Level:
    """The cases of one kind at one commit.

    started: of the first run there. cases: how many they are. ratio: the geometric mean of
    their seconds over those at the first commit at which each was measured; above 1 where they became slower.
    """

    commit: str
    started: str
    kind: str
    cases: int
    ratio: float


def commits(runs: Iterable[Run]) -> list[str]:
    """The commits that runs are of, in the order in which they were first measured."""
    first: dict[str, str] = {}
    for run in runs:
        commit = run.environment.commit
        if commit:
            first[commit] = min(first.get(commit, run.started), run.started)
    return sorted(first, key=lambda commit: (first[commit], commit))


def levels(runs: Sequence[Run]) -> list[Level]:
    """Each kind's level at each commit, oldest first. runs: of one device."""
    origin: dict[str, float] = {}
    found: list[Level] = []
    for commit in commits(runs):
        own = [run for run in runs if run.environment.commit == commit]
        logs: dict[str, list[float]] = {}
        for case, run in latest(own).items():
            assert run.measurement is not None
            seconds = run.measurement.seconds
            logs.setdefault(run.kind, []).append(math.log(seconds / origin.setdefault(case, seconds)))
        started = min(run.started for run in own)
        for kind, values in sorted(logs.items()):
            found.append(Level(commit, started, kind, len(values), math.exp(sum(values) / len(values))))
    return found
