"""Every case of a gate on both sides: what `calc` counts of it, which must be equal, and how long it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from calc.spec.fields import DeviceKind
from harness.cases.case import Case
from harness.gating.children import Failed, Nursery, Process
from harness.gating.decision import LEAST, MOST, Change, Session, decide
from harness.gating.session import Broken, Clock, Effort, Sides, measure

Verdict = Literal["SAME", "FASTER", "SLOWER", "AMBIGUOUS", "NEW", "BROKEN", "UNSUPPORTED", "COUNTED"]
"""NEW: A cannot run it. BROKEN: B cannot, though A can. COUNTED: its time was not asked for."""


@dataclass(frozen=True)
class Row:
    """One case: the verdict on its time, and the counts that differ, as (name, A's, B's).

    looks: how many times it was measured. sessions: every time of every process.
    """

    case: Case
    verdict: Verdict
    change: Change | None = None
    counts: tuple[tuple[str, float | None, float | None], ...] = ()
    reason: str = ""
    looks: int = 0
    sessions: list[Session] = field(default_factory=list)


@contextmanager
def two_trees(
    a: Path, b: Path, device: DeviceKind, threads: int = 1, planted: float = 0.0, clock: Clock | None = None
) -> Iterator[Sides]:
    """Both trees imported, side by side. clock None: `cpu` on a CPU, `wall` on a GPU. Errors: Refused for a tree."""
    with ExitStack() as stack:
        nurseries = [stack.enter_context(Nursery(tree, threads)) for tree in (a, b)]
        for nursery in nurseries:
            nursery.wait()
        yield Sides(*nurseries, device=device, planted=planted, clock=clock or ("cpu" if device == "cpu" else "wall"))


def timed(case: Case, sides: Sides, effort: Effort, least: float = LEAST) -> Row:
    """Measure a case, and once more where that leaves it open. Never raises for what a side does."""
    sessions: list[Session] = []
    for look in (1, 2):
        try:
            # What was left open is looked at longer.
            more = effort if look == 1 else replace(effort, rounds=effort.rounds + effort.rounds // 2)
            sessions.append(measure(case, sides, more))
        except Broken as broken:
            # A is asked first: what B alone calls unsupported, A can run.
            verdict: Verdict = "BROKEN" if broken.side == "B" else "UNSUPPORTED" if broken.unsupported else "NEW"
            return Row(case, verdict, reason=str(broken))
        change = decide(sessions, least, max(MOST, 2 * least))
        if change.verdict != "AMBIGUOUS":
            break
    return Row(case, change.verdict, change, looks=len(sessions), sessions=sessions)


def counted(cases: Sequence[Case], sides: Sides) -> list[Row]:
    """What both sides count of every case: COUNTED with what differs, NEW or BROKEN where a side cannot."""
    processes = (sides.a.fork(), sides.b.fork())
    try:
        return [_counted(case, processes) for case in cases]
    finally:
        for process in processes:
            process.close()


def _counted(case: Case, processes: tuple[Process, Process]) -> Row:
    found: list[dict[str, float]] = []
    for process in processes:
        process.send("counts", kind=case.kind, params=case.params)
    failed: list[tuple[Verdict, Failed]] = []
    names: tuple[Verdict, Verdict] = ("NEW", "BROKEN")
    for process, name in zip(processes, names, strict=True):
        try:
            found.append(process.receive())
        except Failed as why:
            failed.append((name, why))
    if failed:
        return Row(case, failed[0][0], reason=str(failed[0][1]))
    before, after = found
    differ = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return Row(case, "COUNTED", counts=tuple((name, before.get(name), after.get(name)) for name in differ))


def fails(rows: Sequence[Row], allow_count_changes: bool) -> bool:
    """Whether the gate is shut: something is slower or broken, or is counted differently and may not be."""
    bad = any(row.verdict in ("SLOWER", "BROKEN") for row in rows)
    return bad or (not allow_count_changes and any(row.counts for row in rows))
