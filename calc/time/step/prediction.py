"""The time of a step, what it is made of, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

from calc.memory.phases import PhaseMemory
from calc.spec.run import Run
from calc.time.device.priors import factors, scaled
from calc.time.device.speed import Speed
from calc.time.kernels.kernel import Direction, Kernel
from calc.time.kernels.launching import launching
from calc.time.kernels.timing import LEVEL, Bound, Timing
from calc.time.step.mfu import Counting

ON_HOST = "offload"
"""Function of what stands for all that the host updates."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Seconds between which `level` of measured times are expected."""

    level: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel with its time. seconds: of all its calls in a step; share: of the step. dispatch: of the host, to ask
    for it, where the step waits for that and `seconds` are the host's too; hidden: of `seconds`, what runs while
    something else does."""

    kernel: Kernel
    timing: Timing
    seconds: float
    share: float
    dispatch: float = 0.0
    hidden: float = 0.0

    @property
    def waits(self) -> bool:
        """Whether its time is that of the host."""
        return self.dispatch > 0.0


class Details(NamedTuple):
    """What a prediction is made of; as its properties."""

    kernels: tuple[Row, ...]
    interval: Interval
    by_component: Mapping[str, float]
    memory: PhaseMemory
    notes: tuple[str, ...]
    even: float = 1.0


@dataclass(frozen=True)
class Prediction:
    """The time of a training step, a pass or a token.

    run: what was asked for, with the usual words where nothing was said. seconds: of one step. tokens_per_second: new
    tokens of all GPUs. mfu: model FLOPs, counted as `mfu_counting` says, over what the GPUs could do at `peak` (named
    by `peak_source`); None in decode, where bytes are what counts, and where no peak is known. basis: `profile`,
    `relative` or `datasheet`. source: what that is. details: works out, when it is first asked for, what the step is
    made of: a search asks for seconds alone.
    """

    model: str
    device: str
    phase: str
    execution: str
    seconds: float
    tokens: int
    gpus: int
    run: Run
    mfu: float | None
    mfu_counting: Counting
    peak: float | None
    peak_source: str | None
    basis: Literal["profile", "relative", "datasheet"]
    source: str
    details: Callable[[], Details] = field(repr=False, compare=False)

    @cached_property
    def _found(self) -> Details:
        return self.details()

    def __getstate__(self) -> dict[str, Any]:
        """What a copy in another process has: the details themselves, not what works them out."""
        own = {name: value for name, value in self.__dict__.items() if name != "details"}
        return own | {"_found": self._found}

    @property
    def kernels(self) -> tuple[Row, ...]:
        """Every kernel of the slowest stage, with its time."""
        return self._found.kernels

    @property
    def interval(self) -> Interval:
        """Between which seconds the step is expected."""
        return self._found.interval

    @property
    def by_component(self) -> Mapping[str, float]:
        """Seconds by component of the model, and of loss, optimizer, network, a pipeline's bubble, the host once a
        step, and overhead, what steps take beyond their kernels where that was not measured."""
        return self._found.by_component

    @property
    def memory(self) -> PhaseMemory:
        """What the GPU with the most holds while this runs, and whether it fits."""
        return self._found.memory

    @property
    def fits(self) -> bool | None:
        """Whether this can run at all; None where the device's memory, or what is live, is not known."""
        return self.memory.fits

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know of how far to trust it, a sentence each."""
        return self._found.notes

    @property
    def even(self) -> float:
        """What a stage of a pipeline computes on average, over what the slowest does."""
        return self._found.even

    @property
    def bound(self) -> Bound:
        """What most of the time waits for."""
        most = self.by_bound
        return max(most, key=lambda bound: most[bound])

    @property
    def tokens_per_second(self) -> float:
        """New tokens of a step over its seconds, of all GPUs together."""
        return self.tokens / self.seconds

    @property
    def tokens_per_second_between(self) -> tuple[float, float]:
        """New tokens a second at the two ends of the interval, the slower first."""
        return self.tokens / self.interval.high, self.tokens / self.interval.low

    @property
    def mfu_between(self) -> tuple[float, float] | None:
        """MFU at the two ends of the interval, the lower first; None where there is no MFU."""
        if self.mfu is None:
            return None
        return self.mfu * self.seconds / self.interval.high, self.mfu * self.seconds / self.interval.low

    def share(self, seconds: float) -> float:
        """What part of the step `seconds` of it are, such as those of one component or bound."""
        return seconds / self.seconds

    @property
    def by_bound(self) -> dict[Bound, float]:
        """Seconds by what is waited for."""
        found: dict[Bound, float] = {}
        for row in self.kernels:
            bound: Bound = "launch" if row.waits else row.timing.bound
            found[bound] = found.get(bound, 0.0) + row.seconds - row.hidden
        return found


class Stretch(NamedTuple):
    """A part of a step within which the host runs ahead of the device: kernels, and seconds to ask for them."""

    name: str
    rows: tuple[Row, ...]
    device: float
    host: float

    @property
    def seconds(self) -> float:
        """The longer of the two."""
        return max(self.device, self.host)


def stretches(kernels: Sequence[Kernel], timings: Sequence[Timing], speed: Speed, execution: str) -> list[Stretch]:
    """Forward, backward and update of one pass, each as long as its kernels, with the gaps between them, or as what the
    host needs to launch them, whichever is longer.

    On a CPU, which is host and device, what each call needs beside the measured ones comes on top.
    """
    parts: dict[str, list[Row]] = {}
    for kernel, timing in zip(kernels, timings, strict=True):
        gap, host = launching(kernel, timing.seconds, speed, execution)
        row = Row(kernel, timing, kernel.calls * (timing.seconds + gap), 0.0, kernel.calls * host)
        parts.setdefault(stretch_of(kernel.direction), []).append(row)
    return [
        Stretch(name, tuple(rows), sum(row.seconds for row in rows), sum(row.dispatch for row in rows))
        for name, rows in parts.items()
    ]


def stretch_of(direction: Direction) -> str:
    """The stretch that a kernel runs in; what is recomputed is asked for by backward."""
    return {"recomputed": "backward"}.get(direction, direction)


def combined(seconds: float, rows: Iterable[Row], speed: Speed, level: float = LEVEL) -> Interval:
    """The interval of a sum of kernels.

    Errors of kernels of one kind (products, passes, attention, collectives, launches) go together: their bounds are
    added up. Kinds err on their own: their distances from the sum are added in square. So is what no kernel tells, the
    prior `step`, or where no step was measured on the device `unmeasured`, or `experts` where these are trained.
    """
    kinds: dict[str, list[float]] = {}
    for row in rows:
        timing, ratio = row.timing, (1.0, 1.0)
        if row.waits:
            ratio = scaled(factors("launch"), level)
        elif timing.seconds:
            ratio = timing.low / timing.seconds, timing.high / timing.seconds
        sums = kinds.setdefault("launch" if row.waits else kind_of(row.kernel), [0.0, 0.0])
        sums[0] += (row.seconds - row.hidden) * (1 - ratio[0])
        sums[1] += (row.seconds - row.hidden) * (ratio[1] - 1)
    mixed = any(row.kernel.component == "routed_expert" and row.kernel.direction == "backward" for row in rows)
    below, above = scaled(factors("step" if speed.steps else "experts" if mixed else "unmeasured"), level)
    down = math.hypot(seconds * (1 - below), *(each[0] for each in kinds.values()))
    up = math.hypot(seconds * (above - 1), *(each[1] for each in kinds.values()))
    return Interval(level, max(seconds - down, seconds * 0.05), seconds + up)


def kind_of(kernel: Kernel) -> str:
    """Kernels of one kind, whose errors go together."""
    if kernel.direction == "network":
        return "network"
    if kernel.function in ("attention", ON_HOST):
        return kernel.function
    return "product" if kernel.shape is not None else "pass"
