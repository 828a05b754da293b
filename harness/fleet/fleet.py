"""Cases over the devices of a cluster: each once for every kind of device, whatever becomes of nodes."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from calc.errors import Refused
from calc.time.device.profile import Profile
from calc.workers.identity import code
from calc.workers.stopping import stoppable
from harness.cases.case import Case
from harness.fleet.bench import Bench, CaseRequest
from harness.fleet.devices import Hold
from harness.measuring.timing import Effort
from harness.record import Environment, Forecast, Run
from harness.running.ledger import Ledger
from harness.running.runner import TIMEOUT, Summary, choose_cases, find_profile, now
from harness.store import append
from harness.suites import suite_cases

PERIOD = 0.2
"""Seconds between two looks at whether somebody wants to stop."""
ATTEMPTS = 3
"""How often a case is begun whose device is lost."""
PATIENCE = 600.0
"""Seconds for which cases wait for a device of their kind where the last one is lost."""


@dataclass(frozen=True)
class Plan:
    """What to measure. pattern: of cases' ids. cases: in place of the suite's, None: the suite's for each device.
    patience: seconds to wait for a device in the place of a lost one."""

    suite: str
    results: Path
    pattern: str | None = None
    fresh: bool = False
    timeout: float = TIMEOUT
    effort: Effort | None = None
    patience: float = PATIENCE
    choose: Callable[[str, Environment], list[Case]] = suite_cases


@dataclass
class _Kind:
    """The devices that have one name (`Environment.slug`), and what is left to be measured on one of them."""

    profile: Profile | None
    left: deque[Case] = field(default_factory=deque)


@dataclass
class _Seat:
    """One device's place in the fleet. begun: how often an actor was asked for. since: when the last one was, where it
    stands for one that was lost. slug: None until it has said what it is. case: what it measures."""

    hold: Hold
    actor: Any
    begun: int = 1
    since: float | None = None
    slug: str | None = None
    case: Case | None = None


class Fleet:
    """The head: hands out cases, and is the only one that writes. unfit: why devices cannot be used."""

    def __init__(self, ray: Any, plan: Plan, holds: Sequence[Hold], tell: Callable[[str], None]) -> None:
        self.ray, self.plan, self.tell = ray, plan, tell
        self.kinds: dict[str, _Kind] = {}
        self.begun: Counter[tuple[str, str]] = Counter()
        self.summary = Summary()
        self.waiting: dict[Any, _Seat] = {}
        self.idle: list[_Seat] = []
        self.unfit: list[str] = []
        for hold in holds:
            self._ask(_Seat(hold, None))

    def run(self) -> Summary:
        """Until nothing is left, or nobody is left to do it; Ctrl-C ends it with the rows that are written.

        Errors: OSError where a row cannot be written; Refused for nodes with other code, and where no device can be
        used.
        """
        with stoppable() as stopped:
            try:
                while self._needed() and not stopped.is_set():
                    self._look()
            finally:
                for seat in (*self.waiting.values(), *self.idle):
                    self.ray.kill(seat.actor)
            self.summary.interrupted = stopped.is_set()
        if self.unfit and not self.kinds and not stopped.is_set():
            raise Refused("--ray", "a node with a device that can be used", self.unfit[0])
        self.summary.left += sum(len(kind.left) for kind in self.kinds.values())
        return self.summary

    def _needed(self) -> bool:
        """Whether a case is under way, a device has yet to say what it is, or one is awaited for what is left."""
        left = any(kind.left for kind in self.kinds.values())
        return any(left or seat.case is not None or seat.since is None for seat in self.waiting.values())

    def _look(self) -> None:
        """Take what has come, and hand out what is next."""
        ready, _ = self.ray.wait(list(self.waiting), num_returns=1, timeout=PERIOD)
        for reference in ready:
            seat = self.waiting.pop(reference)
            try:
                found = self.ray.get(reference)
            except self.ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except self.ray.exceptions.RayError:
                self._lost(seat)
                continue
            if seat.case is not None:
                self._row(seat, Run.model_validate_json(found))
            elif isinstance(found, str):
                self._unfit(seat, found)
                continue
            else:
                self._introduced(seat, found)
            self._next(seat)
        for reference, seat in list(self.waiting.items()):
            if seat.case is None and seat.since is not None and monotonic() - seat.since > self.plan.patience:
                self.ray.kill(self.waiting.pop(reference).actor)

    def _ask(self, seat: _Seat) -> None:
        """An actor for a device: on the node that has it, or in the place of a lost one on any that has what it
        holds."""
        seat.actor = self.ray.remote(Bench).options(**seat.hold.options()).remote(code(), seat.hold.device)
        self.waiting[seat.actor.environment.remote()] = seat

    def _unfit(self, seat: _Seat, why: str) -> None:
        """A device that is there and of no use: no torch on its node, no driver."""
        self.tell(f"{seat.hold.kind} cannot be used: {why}")
        self.unfit.append(why)
        self.ray.kill(seat.actor)

    def _introduced(self, seat: _Seat, environment: Environment) -> None:
        """A device says what it is; the cases of its kind are listed when the first of them does."""
        seat.slug, plan = environment.slug, self.plan
        self.tell(f"{environment.slug} is there ({seat.hold.kind})")
        if environment.slug in self.kinds:
            return
        kind = self.kinds[environment.slug] = _Kind(find_profile(None, plan.results, environment))
        ledger = Ledger(plan.results, environment, plan.suite, now() if plan.fresh else None)
        ledger.refresh()
        for case in choose_cases(plan.choose(plan.suite, environment), plan.pattern):
            if ledger.is_done(case.id, _forecast(case, kind)):
                self.summary.known += 1
            else:
                kind.left.append(case)

    def _next(self, seat: _Seat) -> None:
        """The next case of its kind; a device for which nothing is left stays, for what others may lose."""
        assert seat.slug is not None
        kind, seat.case = self.kinds[seat.slug], None
        if not kind.left:
            self.idle.append(seat)
            return
        case = seat.case = kind.left.popleft()
        self.begun[seat.slug, case.id] += 1
        plan = self.plan
        effort = None if plan.effort is None else asdict(plan.effort)
        self.tell(f"{seat.slug}: {case.id}")
        request = CaseRequest(case.kind, case.params, plan.suite, kind.profile, plan.timeout, effort)
        self.waiting[seat.actor.measure.remote(request)] = seat

    def _row(self, seat: _Seat, run: Run) -> None:
        append(run, self.plan.results)
        self.summary.rows.append(run)
        self.tell(f"{seat.slug}: {run.status} {run.case}")

    def _lost(self, seat: _Seat) -> None:
        """A device is gone with its node or its actor: its case goes to another of its kind, and one more is asked
        for, which begins when there is a node for it."""
        case, slug = seat.case, seat.slug
        self.tell(f"{slug or seat.hold.kind} is lost{f', and {case.id} begins again' if case else ''}")
        if case is not None and slug is not None:
            if self.begun[slug, case.id] < ATTEMPTS:
                self.kinds[slug].left.appendleft(case)
            else:
                self.tell(f"{case.id} is left out: {ATTEMPTS} devices were lost with it")
                self.summary.left += 1
        if seat.begun < ATTEMPTS:
            self._ask_again(seat)
        for other in [each for each in self.idle if each.slug == slug]:
            self.idle.remove(other)
            self._next(other)

    def _ask_again(self, seat: _Seat) -> None:
        self._ask(_Seat(seat.hold._replace(node=""), None, seat.begun + 1, monotonic()))


def _forecast(case: Case, kind: _Kind) -> Forecast | None:
    """What a case's row is predicted from; a failure is told by the bench, and is no reason not to measure."""
    try:
        return None if kind.profile is None else case.forecast(kind.profile)
    except Exception:
        return None
