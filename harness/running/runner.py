"""A sweep over cases that survives them: what is predicted, measured and written, one line a case, whatever happens."""

from __future__ import annotations

import math
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from calc.errors import Refused, printable
from calc.units import binary
from harness.cases.case import Case
from harness.environment import host_memory
from harness.measuring.limits import catalogued, impossible, rates
from harness.measuring.sampling import FAULTS
from harness.measuring.timing import KERNEL, STEP, UNSTABLE, Effort
from harness.record import LONGEST, Environment, Forecast, Measurement, Run, Status
from harness.running.ledger import Ledger, device_lock
from harness.running.observer import Cancelled, Observer
from harness.running.process import Outcome, Worker
from harness.store import RESULTS, append

if TYPE_CHECKING:
    from calc.time.device.profile import Profile

FAILED: tuple[Status, ...] = ("crashed", "oom", "timeout")
"""The statuses that make a sweep end with exit status 1."""
TIMEOUT = 600.0
"""Seconds of one case, everything included, unless told otherwise."""
SHORTEST_TIMEOUT = 15.0
"""Seconds that a case is given even where the budget is all but used up."""
BUSY = 0.5
"""Runnable processes a core, when a sweep begins, above which it says so."""


@dataclass(frozen=True)
class Plan:
    """What to run. profile: what predicts, None: nothing does. fresh: measure what has been measured too.

    timeout: seconds of one case. budget: seconds of everything, shared among the cases; None: each as long as it needs.
    effort: of measuring each; None: what kernels and steps are owed.
    """

    cases: Sequence[Case]
    suite: str
    results: Path = RESULTS
    profile: Profile | None = None
    fresh: bool = False
    timeout: float = TIMEOUT
    budget: float | None = None
    effort: Effort | None = None


@dataclass
class Summary:
    """How a sweep ended. rows: what was added. known: cases that had been measured before. left: cases for which the
    budget did not last."""

    rows: list[Run] = field(default_factory=list)
    known: int = 0
    left: int = 0
    interrupted: bool = False

    @property
    def statuses(self) -> dict[str, int]:
        """How many rows ended how."""
        return dict(Counter(run.status for run in self.rows))

    @property
    def exit_status(self) -> int:
        """130 interrupted, 1 where a case failed, 0."""
        return 130 if self.interrupted else int(any(run.status in FAILED for run in self.rows))


def sweep(plan: Plan, worker: Worker, observer: Observer) -> Summary:
    """Run the cases of `plan` one after the other in `worker`; Ctrl-C and `Cancelled` end it with what is finished.

    Errors: OSError where a row cannot be written; all before it are on the disk.
    """
    return _Sweep(plan, worker, observer).run()


class _Sweep:
    def __init__(self, plan: Plan, worker: Worker, observer: Observer) -> None:
        self.plan, self.worker, self.observer = plan, worker, observer
        self.environment = worker.environment
        self.begin = time.monotonic()
        self.summary = Summary()
        self.too_large: list[Case] = []
        self.ledger = Ledger(plan.results, self.environment, plan.suite, now() if plan.fresh else None)

    def run(self) -> Summary:
        try:
            self.ledger.refresh()
            self.observer.begin(self.plan.cases, self.ledger.wall)
            self._warn()
            for index, case in enumerate(self.plan.cases):
                self._turn(index, case)
        except (KeyboardInterrupt, Cancelled):
            self.summary.interrupted = True
        finally:
            self.observer.close()
        self.observer.end(self.summary.interrupted)
        return self.summary

    def _warn(self) -> None:
        """Say beforehand what will make rows `unstable`."""
        load, cores = self.environment.load, self.environment.cores
        if load is not None and load > BUSY * cores:
            self.observer.note(f"other programs keep {load:.1f} of {cores} cores busy; times may not be worth much")

    def _turn(self, index: int, case: Case) -> None:
        """One case, unless a row stands for it or the budget is used up; no other runner measures on this device
        meanwhile."""
        forecast = self._forecast(case)
        slug = self.environment.slug
        tick, waiting = self.observer.tick, lambda: self.observer.stage("waiting for another run on this device")
        with device_lock(self.plan.results, slug, tick, waiting):
            self.ledger.refresh()
            if self.ledger.is_done(case.id, forecast):
                self.summary.known += 1
                self.observer.known(index, case)
                return
            if self._seconds_left() <= 0:
                self.summary.left += 1
                return
            self.observer.case(index, case)
            run = self._measure(case, forecast, len(self.plan.cases) - index)
            append(run, self.plan.results)
        self.summary.rows.append(run)
        self.observer.row(index, run)

    def _forecast(self, case: Case) -> Forecast | None:
        if self.plan.profile is None:
            return None
        try:
            return case.forecast(self.plan.profile)
        except Exception as error:
            # A prediction that fails is worth a word, and no measurement.
            self.observer.note(f"{case.id}: no forecast: {printable(str(error))}")
            return None

    def _measure(self, case: Case, forecast: Forecast | None, turns: int) -> Run:
        started, begin = now(), time.monotonic()
        counts: dict[str, float] = {}
        try:
            outcome = self._obstacle(case)
            counts = _counts(case) if outcome is None else {}
        except Exception as error:
            outcome = Outcome("crashed", printable(f"before it started, {type(error).__name__}: {error}"))
        if outcome is None:
            outcome = self.worker.run(case, self._effort(case, turns), self._timeout(), self.observer.stage)
        if outcome.status == "oom":
            self.too_large.append(case)
        measured = outcome.measurement
        status, reason, metrics = outcome.status, outcome.reason, {}
        if measured is not None:
            status, why = self._verdict(case, counts, measured)
            reason = "; ".join(filter(None, (why, outcome.reason)))
            metrics = rates(counts, case.params, measured, self.environment)
        return Run(
            run=uuid.uuid4().hex[:16],
            case=case.id,
            kind=case.kind,
            params=case.params,
            suite=self.plan.suite,
            started=started,
            wall=round(time.monotonic() - begin, 3),
            status=status,
            reason=reason[:LONGEST],
            environment=self.worker.environment,
            flops=counts.get("flops"),
            bytes=counts.get("bytes"),
            tokens=counts.get("tokens"),
            forecast=forecast,
            measurement=measured,
            metrics=metrics,
        )

    def _obstacle(self, case: Case) -> Outcome | None:
        """Why a case is not even started."""
        why = case.unsupported(self.environment)
        if why is not None:
            return Outcome("unsupported", printable(why))
        smaller = next((other for other in self.too_large if case.dominates(other)), None)
        if smaller is not None:
            return Outcome("skipped", f"needs no less memory than {smaller.id}, which ran out of it")
        cuda = self.environment.device == "cuda"
        needed, there = case.memory(), self.environment.memory if cuda else host_memory("MemAvailable")
        if needed > there:
            return Outcome("skipped", f"needs about {binary(needed)} of memory, and there are {binary(there)}")
        return None

    def _verdict(self, case: Case, counts: dict[str, float], measured: Measurement) -> tuple[Status, str]:
        """What a measurement is worth, and why it is not `ok`."""
        broken = impossible(counts, case.params, measured, self.environment)
        if broken is not None:
            return "unstable", broken
        held_back = [why for why in (measured.sample.throttle if measured.sample else ()) if why in FAULTS]
        if held_back:
            return "throttled", ", ".join(held_back)
        if measured.clock == "host" and (measured.waiting or 0.0) > UNSTABLE:
            why = "as other programs had them (or there are more threads than cores)"
            return "unstable", f"its threads waited for a core {measured.waiting:.0%} of the time, {why}"
        if measured.width > UNSTABLE:
            return "unstable", f"the interval of the median is {measured.width:.0%} of it wide, above {UNSTABLE:.0%}"
        return "ok", ""

    def _seconds_left(self) -> float:
        return float("inf") if self.plan.budget is None else self.plan.budget - (time.monotonic() - self.begin)

    def _effort(self, case: Case, turns: int) -> Effort:
        """What the case needs, or half of its share of the budget: the rest goes into making it ready and checking."""
        effort = self.plan.effort or (STEP if case.step else KERNEL)
        return effort if self.plan.budget is None else effort.within(max(0.2, self._seconds_left() / turns / 2))

    def _timeout(self) -> float:
        """Of a budget, a case that hangs takes half of what is left, so that it is found out and others run too."""
        return min(self.plan.timeout, max(SHORTEST_TIMEOUT, self._seconds_left() / 2))


def _counts(case: Case) -> dict[str, float]:
    """What `case` counts. Errors: ValueError for what is no finite number, besides whatever counting raises."""
    counts = {name: float(value) for name, value in case.counts().items()}
    for name, value in counts.items():
        if not math.isfinite(value):
            raise ValueError(f"{name} is {value}")
    return counts


def now() -> str:
    """This moment, UTC, ISO 8601 to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def find_profile(reference: str | None, results: Path, environment: Environment) -> Profile | None:
    """The profile that predicts: the one named, else the machine's own under `results`, else one that is shipped for
    its GPU; None where there is none. Errors: Refused for a file that is no profile."""
    from calc.time.device.profile import profile_named, read_profile, shipped_profile

    if reference is not None:
        return profile_named(reference)
    own = results / "profiles" / f"{environment.slug}.json"
    if own.is_file():
        return read_profile(own)
    device = catalogued(environment)
    return shipped_profile(device.name) if device is not None else None


def choose_cases(cases: Sequence[Case], pattern: str | None) -> list[Case]:
    """Those whose id holds `pattern`, or matches it where it has `*` or `?` in it. Errors: Refused for none."""
    from fnmatch import fnmatchcase

    if pattern is None:
        return list(cases)
    shape = pattern if any(mark in pattern for mark in "*?[") else f"*{pattern}*"
    found = [case for case in cases if fnmatchcase(case.id, shape)]
    if not found:
        raise Refused("--case", f"a part of the id of one of {len(cases)} cases (see --list)", pattern)
    return found
