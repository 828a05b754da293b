"""One line of results: what was run where, what was predicted before, what was measured, and how it ended."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from calc.spec.fields import DeviceKind, Node

SCHEMA = 1
Status = Literal["ok", "oom", "timeout", "crashed", "unsupported", "throttled", "unstable", "skipped"]


LONGEST = 4096
Text = Annotated[str, Field(max_length=LONGEST)]
"""What people or programs wrote; nobody vouches for it, so whoever shows it escapes it."""
Slug = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,79}$")]
"""A name that is safe as a folder."""


class Record(Node):
    """A piece of a result: as a `Node`, and every number finite."""

    model_config = ConfigDict(allow_inf_nan=False)


class Environment(Record):
    """The machine and what is installed on it, as far as a time depends on it; None: not known or not there.

    slug: the device's name as a folder. device: `cuda` or `cpu`. clocks in MHz, power in W, memory in bytes.
    load: runnable processes over the last minute when the run began. commit: of this repository; where its packages
    differ from what was committed, `+` and a digest of how.
    """

    slug: Slug
    device: DeviceKind
    name: str
    cores: int
    threads: int
    memory: int
    cpu: str
    os: str
    python: str
    torch: str
    cuda: str | None = None
    driver: str | None = None
    triton: str | None = None
    sm_count: int | None = None
    capability: str | None = None
    max_sm_clock: int | None = None
    max_memory_clock: int | None = None
    power_limit: float | None = None
    commit: str | None = None
    load: float | None = None


class Sample(Record):
    """What a GPU said of itself during a measurement: medians of clocks in MHz, power in W, and why it held back."""

    sm_clock: float | None = None
    memory_clock: float | None = None
    power: float | None = None
    temperature: float | None = None
    throttle: tuple[str, ...] = ()


class Forecast(Record):
    """What was predicted before the case ran: seconds with an interval of `level`, and what it is made of.

    source: the profile or the datasheet it rests on. bound: what most of the time waits for (compute, memory, launch,
    network). by_component: seconds by component of the model or by kernel.
    """

    seconds: float
    low: float
    high: float
    level: float
    source: str
    bound: str
    by_component: dict[str, float] = Field(default_factory=dict)
    peak_bytes: int | None = None


class Measurement(Record):
    """Seconds of one execution: the median (of suites of several ranks the lower quartile, `harness.ranks.timing`), its
    bootstrap 95 % interval, and how they were found.

    clock: what measured. cache: `cold` where what is read was not in the L2 cache. converged: whether the interval
    became as narrow as was asked for within the time limit. samples: the single times, at most 1,000 of them.
    kernels: what really ran, as the profiler names it; kernel_seconds: of each of them, all its calls in one execution
    under the profiler (older lines have none). error: the largest relative error against the check.
    peak_bytes: the most that tensors took at once during one execution, inputs and weights included.
    reserved_bytes: the most that a GPU's allocator had taken from the driver for them.
    waiting: the part of the time for which a thread of the case was ready to run and had no core, because other
    programs had them; None where the system does not tell. by_component: seconds of the parts of it, where it was taken
    apart.
    """

    seconds: float
    low: float
    high: float
    samples: tuple[float, ...]
    clock: Literal["cuda-event", "cuda-graph", "host"]
    cache: Literal["hot", "cold"]
    converged: bool
    warmup: int
    peak_bytes: int | None = None
    reserved_bytes: int | None = None
    kernels: tuple[str, ...] = ()
    kernel_seconds: tuple[float, ...] = ()
    error: float | None = None
    waiting: float | None = None
    sample: Sample | None = None
    by_component: dict[str, float] = Field(default_factory=dict)

    @property
    def width(self) -> float:
        """The interval's width as a fraction of the median; 0 for a median of 0."""
        return (self.high - self.low) / self.seconds if self.seconds else 0.0


class Run(Record):
    """One case run once; one line of JSON.

    run: an id of its own. case: the case's id, the same wherever it is run; kind and params are what it is made of.
    suite: for whose sake it ran. started: UTC, ISO 8601. wall: seconds of everything, set-up included.
    reason: why it ended otherwise than `ok`, or what went wrong after it was measured. flops, bytes, tokens: of one
    execution, as counted.
    forecast: made before the measurement. metrics: flops_per_second, bytes_per_second, tokens_per_second, mfu.
    """

    schema_version: Literal[1] = SCHEMA
    run: Text
    case: Text
    kind: Text
    params: dict[str, Any]
    suite: Text
    started: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT[\d:.]{5,20}(Z|\+00:00)$")]
    wall: float
    status: Status
    reason: Text = ""
    environment: Environment
    flops: float | None = None
    bytes: float | None = None
    tokens: float | None = None
    forecast: Forecast | None = None
    measurement: Measurement | None = None
    metrics: dict[str, float] = Field(default_factory=dict)
