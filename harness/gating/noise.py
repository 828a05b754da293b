"""What the gate's rule makes of this machine's noise: the same tree against itself, as it is and made slower."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from harness.cases.case import Case
from harness.cases.layer import LayerCase
from harness.cases.matmul import MatmulCase
from harness.cases.passes import PassCase
from harness.environment import ROOT
from harness.gating.decision import LEAST
from harness.gating.gate import Row, timed, two_trees
from harness.gating.session import Effort
from harness.record import Environment, Record
from harness.store import append_lines

CASES: tuple[Case, ...] = (
    MatmulCase(128, 512, 512, dtype="fp32"),
    PassCase("layernorm", 2**18, "fp32"),
    LayerCase("tiny-gpt", 32, 1, "fp32"),
)
"""What waits for arithmetic, what waits for memory, and what Python starts kernel by kernel."""
PLANTED = 0.15
EFFORT = Effort(seconds=0.01, warmup=0.05)


class Trial(Record):
    """One comparison. planted: by what part B was made slower. ratio: B over A, with its interval; floor: the noise."""

    number: int
    planted: float
    case: str
    verdict: str
    looks: int
    ratio: float
    low: float
    high: float
    floor: float


class Noise(Record):
    """One run of the self-test; a line of `results/noise/<device>.jsonl`.

    least: the smallest change that counts. processes (a side), rounds: of one look. aa_slower: tries without a change
    in which any case was SLOWER; planted_missed: with one, in which any case was not.
    """

    schema_version: int = 1
    started: str
    wall: float
    environment: Environment
    least: float
    processes: int
    rounds: int
    aa_tries: int
    aa_slower: int
    planted_tries: int
    planted_missed: int
    tries: tuple[Trial, ...]


def self_test(
    environment: Environment, number: int, cases: Sequence[Case], say: Callable[[int, int], None], threads: int = 1
) -> list[Trial]:
    """`number` tries without a change and then as many with one."""
    found: list[Trial] = []
    total = 2 * number * len(cases)
    for planted in (0.0, PLANTED):
        with two_trees(ROOT, ROOT, environment.device, threads, planted) as sides:
            for attempt in range(number):
                for case in cases:
                    found.append(_as_try(timed(case, sides, EFFORT), attempt, planted))
                    say(len(found), total)
    return found


def _as_try(row: Row, number: int, planted: float) -> Trial:
    """Errors: RuntimeError for a case that was not measured."""
    change = row.change
    if change is None:
        raise RuntimeError(f"{row.case.id}: {row.reason}")
    return Trial(
        number=number,
        planted=planted,
        case=row.case.id,
        verdict=change.verdict,
        looks=row.looks,
        ratio=_short(change.ratio),
        low=_short(change.low),
        high=_short(change.high),
        floor=_short(change.floor),
    )


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def summary(started: str, wall: float, environment: Environment, number: int, tries: Sequence[Trial]) -> Noise:
    """The record of a self-test."""
    slower = {each.number for each in tries if not each.planted and each.verdict == "SLOWER"}
    missed = {each.number for each in tries if each.planted and each.verdict != "SLOWER"}
    return Noise(
        started=started,
        wall=round(wall, 1),
        environment=environment,
        least=LEAST,
        processes=EFFORT.processes,
        rounds=EFFORT.rounds,
        aa_tries=number,
        aa_slower=len(slower),
        planted_tries=number,
        planted_missed=len(missed),
        tries=tuple(tries),
    )


def keep(found: Noise, results: Path) -> Path:
    """Add the record to those of its device."""
    path = results / "noise" / f"{found.environment.slug}.jsonl"
    append_lines(path, found.model_dump_json().encode() + b"\n")
    return path
