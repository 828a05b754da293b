"""A suite of several ranks: calibrated, predicted, measured; rank 0 writes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from calc.errors import Refused, printable
from calc.spec.cluster import Cluster
from calc.spec.clusters import load_cluster
from calc.spec.fields import DeviceKind
from calc.time.cluster.measured import measured_models
from harness.cases.ranks import RankCase, RankExecution
from harness.environment import here
from harness.measuring.limits import rates
from harness.measuring.timing import UNSTABLE
from harness.ranks.calibration import calibrate, name_of, write
from harness.ranks.start import Place, joined
from harness.ranks.suites import RANK_SUITES
from harness.ranks.timing import agreed, measure_all, worst
from harness.record import Environment, Forecast, Measurement, Run, Status
from harness.running.ledger import Ledger, device_lock
from harness.running.runner import Summary, choose_cases, now
from harness.store import append


@dataclass(frozen=True)
class Job:
    """What ranks are to measure. cluster: a description with curves; None: that of an earlier run on as many ranks, or
    a new one, which is written under the results."""

    suite: str
    results: Path
    pattern: str | None = None
    fresh: bool = False
    cluster: str | None = None
    device: DeviceKind | None = None


@dataclass
class _Begun:
    """A case under way. since: seconds of a clock. alone: seconds of what a rank computes of it. part: this rank's part
    of a step. status: why it is not measured, None: it is."""

    case: RankCase
    started: str
    since: float
    alone: float = 0.0
    forecast: Forecast | None = None
    part: RankExecution | None = None
    error: float | None = None
    status: Status | None = None
    reason: str = ""


@dataclass
class _Session:
    """One rank's run of a job. summary: rank 0's rows; the others have none."""

    job: Job
    place: Place
    environment: Environment
    cluster: Cluster
    source: str
    tell: Callable[[str], None]
    ledger: Ledger
    summary: Summary = field(default_factory=Summary)

    @property
    def device(self) -> DeviceKind:
        return self.environment.device

    def run(self, cases: Sequence[RankCase]) -> None:
        """All cases but those for which rows stand: predicted, then measured by turns, then written."""
        left = [case for case in cases if not agreed(self.place.first and self._known(case))]
        self.summary.known += len(cases) - len(left)
        begun = [_Begun(case, now(), time.monotonic()) for case in left]
        self._compute_alone(begun)
        for each in begun:
            self._check(each)
        sound = [each for each in begun if not each.status]
        times = measure_all([partial(self._together, each) for each in sound], self.device)
        found = dict(zip(map(id, sound), times, strict=True))
        for each in begun if self.place.first else ():
            measured = found.get(id(each))
            self._row(each, measured and measured.model_copy(update={"error": each.error}))

    def _known(self, case: RankCase) -> bool:
        self.ledger.refresh()
        marker = Forecast(seconds=0.0, low=0.0, high=0.0, level=0.9, source=self.source, bound="network")
        return self.ledger.is_done(case.id, marker)

    def _together(self, begun: _Begun) -> Callable[[], Any]:
        """This rank's part of a case: a step's is kept, since it takes long to make."""
        return (begun.part or begun.case.of_rank(self.place.rank, self.device)).run

    def _compute_alone(self, begun: Sequence[_Begun]) -> None:
        """Time what a rank computes of each case, on all of them at once."""
        made: list[tuple[_Begun, Callable[[], Any]]] = []
        for each in begun:
            with self._unsupported(each):
                alone = each.case.alone(self.place.rank, self.device)
                made += [] if alone is None else [(each, alone)]
        times = measure_all([lambda run=run: run for _, run in made], self.device)
        for (each, _), measured in zip(made, times, strict=True):
            each.alone = measured.seconds

    def _check(self, begun: _Begun) -> None:
        """Predict a case, and have its numbers checked."""
        if begun.status:
            return
        case = begun.case
        self.tell(case.id)
        begun.forecast = case.expected(begun.alone, measured_models(self.cluster, case.ranks), self.source)
        with self._unsupported(begun):
            made = case.of_rank(self.place.rank, self.device)
            begun.error = worst(made.check(), self.device)
            begun.part = made if case.step else None
            if not begun.error <= made.tolerance:
                begun.status, begun.reason = "crashed", f"wrong result: relative error {begun.error:.3g}"

    @contextmanager
    def _unsupported(self, begun: _Begun) -> Iterator[None]:
        """What a rank cannot run at all, no rank can: they have the same code and the same sizes."""
        try:
            yield
        except NotImplementedError as why:
            begun.forecast, begun.status, begun.reason = None, "unsupported", printable(str(why))[:1000]

    def _row(self, begun: _Begun, measured: Measurement | None) -> None:
        case, counts = begun.case, dict(begun.case.counts())
        wide = measured is not None and measured.width > UNSTABLE
        run = Run(
            run=uuid.uuid4().hex[:16],
            case=case.id,
            kind=case.kind,
            params=case.params,
            suite=self.job.suite,
            started=begun.started,
            wall=round(time.monotonic() - begun.since, 3),
            status=begun.status or ("unstable" if wide else "ok"),
            reason=f"interval {measured.width:.0%} wide" if measured is not None and wide else begun.reason,
            environment=self.environment,
            flops=counts.get("flops"),
            bytes=counts.get("bytes"),
            tokens=counts.get("tokens"),
            forecast=begun.forecast,
            measurement=measured,
            metrics={} if measured is None else rates(counts, case.params, measured, self.environment),
        )
        append(run, self.job.results)
        self.summary.rows.append(run)


def run_suite(job: Job, place: Place, tell: Callable[[str], None]) -> Summary:
    """Measure a suite among the ranks that torchrun started; every rank calls it, rank 0 appends the rows.

    A rank that ends takes the job with it, as it does any other; what has been measured stands, and the next start goes
    on from there. Errors: Refused for a pattern that no case has, and a cluster of other ranks.
    """
    environment = here(job.device)
    with joined(place, environment.device):
        environment = agreed(environment)
        slug, suite = environment.slug, RANK_SUITES[job.suite]
        cases: Any = choose_cases(list(suite(place, environment.device)), job.pattern)
        report = tell if place.first else _nothing
        lock = device_lock(job.results, slug, _idle, lambda: report("waiting for another run on this device"))
        with lock if place.first else nullcontext():
            cluster, source = _cluster(job, place, environment, cases, report)
            ledger = Ledger(job.results, environment, job.suite, now() if job.fresh else None)
            session = _Session(job, place, environment, cluster, source, report, ledger)
            session.run(cases)
    return session.summary


def _cluster(
    job: Job, place: Place, environment: Environment, cases: Sequence[RankCase], tell: Callable[[str], None]
) -> tuple[Cluster, str]:
    """The curves that predict, with where they are from: rank 0 looks, and all of them measure what is missing."""
    path = job.results / "clusters" / f"{name_of(place, environment)}.toml"
    # Only rank 0 need see the file: other nodes may have no such folder.
    cluster: Cluster | None = agreed(_described(job, path) if place.first else None)
    known = {} if cluster is None else measured_models(cluster, place.ranks)
    missing = sorted({each.op for case in cases for each in case.collectives()} - known.keys())
    if missing and job.cluster is not None:
        raise Refused(
            "--cluster", f"curves of {', '.join(missing)} among {place.ranks} ranks", f"none in {job.cluster}"
        )
    if missing or cluster is None:
        curves = (*(cluster.measured if cluster else ()), *calibrate(place, environment.device, missing, tell))
        cluster = agreed(write(path, place, environment, curves) if place.first else None)
    assert cluster is not None
    return cluster, f"cluster {cluster.name} of {cluster.fast.read.isoformat()}"


def _described(job: Job, path: Path) -> Cluster | None:
    """The description that is there; None for none, and where all is to be measured again."""
    if job.cluster is not None:
        return load_cluster(job.cluster)
    return load_cluster(str(path.resolve())) if path.is_file() and not job.fresh else None


def _nothing(text: str) -> None:
    """What ranks other than the first have to say."""


def _idle() -> None:
    """Between two looks at a lock."""
