"""Measured against predicted: how far forecasts were from what was then measured, by group, component and case."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Literal, get_args

from harness.record import Run

By = Literal["kind", "dtype", "suite", "model", "backend"]
"""What a group is: a kind of case, or a kind with a number format, a suite, a model or a backend of attention."""
BY: tuple[By, ...] = get_args(By)
IMPOSSIBLE = "impossible:"
"""How the reason of a run begins that beat a physical limit."""


@dataclass(frozen=True)
class Pair:
    """One case with both its times, in seconds. ratio: measured over predicted."""

    run: Run
    group: str
    predicted: float
    measured: float

    @property
    def case(self) -> str:
        return self.run.case

    @property
    def device(self) -> str:
        return self.run.environment.slug

    @property
    def commit(self) -> str:
        """The code that was measured; empty where it is not known."""
        return self.run.environment.commit or ""

    @property
    def ratio(self) -> float:
        return self.measured / self.predicted

    @property
    def error(self) -> float:
        """|predicted - measured| / measured."""
        return abs(self.predicted / self.measured - 1)

    @property
    def inside(self) -> bool:
        """Whether the measured time lies in the interval that was told with the forecast."""
        forecast = self.run.forecast
        return forecast is not None and forecast.low <= self.measured <= forecast.high


@dataclass(frozen=True)
class Group:
    """Pairs of one group on one device."""

    name: str
    device: str
    pairs: tuple[Pair, ...]

    @property
    def mape(self) -> float:
        """The mean of the errors."""
        return sum(pair.error for pair in self.pairs) / len(self.pairs)

    @property
    def median_ape(self) -> float:
        """The median of the errors."""
        return median(pair.error for pair in self.pairs)

    @property
    def ratio(self) -> float:
        """The geometric mean of measured over predicted: above 1 where forecasts were too fast."""
        return math.exp(sum(math.log(pair.ratio) for pair in self.pairs) / len(self.pairs))

    def within(self, share: float) -> float:
        """The factor that at least that share of the cases are off by at most, too slow or too fast."""
        factors = sorted(max(pair.ratio, 1 / pair.ratio) for pair in self.pairs)
        return factors[max(math.ceil(share * len(factors)) - 1, 0)]

    @property
    def inside(self) -> float:
        """The part of them that lies in the interval told."""
        return sum(pair.inside for pair in self.pairs) / len(self.pairs)


@dataclass(frozen=True)
class Part:
    """A component of the cases of a group, both times summed over those cases that were taken apart."""

    group: str
    device: str
    component: str
    n: int
    predicted: float
    measured: float

    @property
    def ratio(self) -> float:
        return self.measured / self.predicted


@dataclass(frozen=True)
class Comparison:
    """All pairs, worst first, and how many runs were left out by the reason why."""

    pairs: tuple[Pair, ...]
    left_out: Mapping[str, int]

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """By device and group, then all of each device together."""
        found: dict[tuple[str, str], list[Pair]] = {}
        for pair in self.pairs:
            found.setdefault((pair.run.environment.slug, pair.group), []).append(pair)
        devices: dict[str, list[Pair]] = {}
        for (device, _), pairs in found.items():
            devices.setdefault(device, []).extend(pairs)
        groups = [Group(name, device, tuple(pairs)) for (device, name), pairs in sorted(found.items())]
        return (*groups, *(Group("all", device, tuple(pairs)) for device, pairs in sorted(devices.items())))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Components of the groups whose cases were taken apart."""
        return tuple(_parts(self.pairs))


def compare(
    runs: Iterable[Run],
    by: By = "kind",
    every: bool = False,
    wanted: Callable[[Run], bool] = lambda run: True,
    unstable: bool = False,
) -> Comparison:
    """Forecasts against measurements.

    every: all runs of a case; else the latest on each device. unstable: times that moved too much to be relied on too,
    as on a machine that has other work, but none that beat a physical limit. wanted: which runs are asked for; others
    are not counted at all, not even as left out.
    """
    left_out: Counter[str] = Counter()
    usable: list[Pair] = []
    for run in sorted(filter(wanted, runs), key=lambda run: run.started):
        pair = _pair(run, by, unstable)
        if isinstance(pair, str):
            left_out[pair] += 1
        else:
            usable.append(pair)
    if not every:
        latest = {(pair.run.environment.slug, pair.run.case): pair for pair in usable}
        if len(latest) < len(usable):
            left_out["an older run of the same case"] = len(usable) - len(latest)
        usable = list(latest.values())
    return Comparison(tuple(sorted(usable, key=lambda pair: -pair.error)), dict(left_out))


def group_of(run: Run, by: By) -> str:
    """The name of a run's group."""
    value = run.suite if by == "suite" else run.params.get(by)
    return run.kind if by == "kind" or not isinstance(value, str) else f"{run.kind} {value}"


def _pair(run: Run, by: By, unstable: bool = False) -> Pair | str:
    """Both times of a run, or why it has not both."""
    if run.reason.startswith(IMPOSSIBLE):
        return "impossible"
    if run.status != "ok" and not (unstable and run.status == "unstable"):
        return f"not ok: {run.status}"
    if run.forecast is None:
        return "no forecast"
    if run.measurement is None:
        return "no measurement"
    predicted, measured = run.forecast.seconds, run.measurement.seconds
    if not (0 < predicted < math.inf and 0 < measured < math.inf):
        return "impossible"
    return Pair(run, group_of(run, by), predicted, measured)


def _parts(pairs: Sequence[Pair]) -> Iterable[Part]:
    sums: dict[tuple[str, str, str], list[float]] = {}
    for pair in pairs:
        forecast, measurement = pair.run.forecast, pair.run.measurement
        if forecast is None or measurement is None:
            continue
        for name in forecast.by_component.keys() & measurement.by_component.keys():
            entry = sums.setdefault((pair.run.environment.slug, pair.group, name), [0, 0.0, 0.0])
            entry[0] += 1
            entry[1] += forecast.by_component[name]
            entry[2] += measurement.by_component[name]
    for (device, group, name), (n, predicted, measured) in sorted(sums.items()):
        if predicted > 0 and measured > 0:
            yield Part(group, device, name, int(n), predicted, measured)
