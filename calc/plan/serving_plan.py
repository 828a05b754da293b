"""What is asked of a search for ways to serve, and what it finds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calc.serve.service import Guessing, Service
from calc.spec import ModelSpec
from calc.units import HOUR

MILLION = 1e6
LOADS = tuple(2 ** (i / 2) for i in range(23))
"""Requests under way on one replica that are looked at: 1 to 2,048."""
PIPELINED = 1.03
"""How many times as good as another a pipeline must be to be named before it: it is harder to start than several
servers, and what it gains in closed form by less may be nothing in a simulation."""


@dataclass(frozen=True, slots=True)
class Slo:
    """What must hold of the means. Seconds; None: anything."""

    ttft: float | None = None
    tpot: float | None = None

    @property
    def asks(self) -> bool:
        """Whether anything must hold."""
        return self.ttft is not None or self.tpot is not None

    def meets(self, ttft: float, tpot: float) -> bool:
        """Whether both are met."""
        return self.times(ttft, tpot) <= 1

    def times(self, ttft: float, tpot: float) -> float:
        """What is seen as a multiple of what must hold, the larger of both; 0 where nothing must or is seen."""
        asked = ((ttft, self.ttft), (tpot, self.tpot))
        held = [(seen, limit) for seen, limit in asked if limit is not None and not math.isnan(seen)]
        return max((seen / limit if limit else math.inf for seen, limit in held), default=0.0)


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked. gpus: of one server, at least and at most. prices: of a GPU of each device, an hour. budgets:
    tokens of a step that are tried; None: the engine's. apart: whether prompts and answers may have own GPUs. tool:
    what shall start the best plan, as `calc.serve.launching` knows it; None: anything."""

    spec: ModelSpec
    devices: Sequence[str]
    gpus: tuple[int, int]
    input: int
    output: int
    slo: Slo
    engines: Sequence[str] = ("vllm",)
    dtypes: Sequence[str] = ("bf16",)
    budgets: Sequence[int | None] = (None,)
    guessing: Guessing | None = None
    prices: Mapping[str, float] | None = None
    apart: bool = False
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """One way to serve, at one load. services: one, or a reader of prompts and a maker of answers. concurrency:
    requests under way on one replica. Seconds, a tpot of nan where no token follows the first; requests a second of
    all its GPUs."""

    services: tuple[Service, ...]
    concurrency: float
    ttft: float
    tpot: float
    requests: float
    output: int
    price: float | None

    @property
    def gpus(self) -> int:
        """All GPUs of it."""
        return sum(service.layout.gpus for service in self.services)

    @property
    def per_gpu(self) -> float:
        """Tokens of answers a second and GPU."""
        return self.requests * self.output / self.gpus

    @property
    def per_user(self) -> float:
        """Tokens a second that one user sees; nan where no token follows the first."""
        return 1 / self.tpot

    @property
    def swift(self) -> float:
        """More is better for one user: tokens a second, or of answers of one token first ones."""
        return 1 / (self.ttft if math.isnan(self.tpot) else self.tpot)

    @property
    def cost(self) -> float | None:
        """Money for a million tokens of answers, their prompts included; None without a price."""
        return None if self.price is None else self.price * self.gpus / HOUR / (self.requests * self.output) * MILLION

    @property
    def handicap(self) -> float:
        """How many times as good as others it must be to be named before them."""
        return PIPELINED if any(service.layout.pp > 1 for service in self.services) else 1.0

    @property
    def worth(self) -> float:
        """More is better: tokens for money, or without a price tokens a second and GPU."""
        return (self.per_gpu if self.cost is None else 1 / self.cost) / self.handicap

    def replicas_for(self, rate: float, headroom: float) -> int:
        """How many times it answers `rate` requests a second with a share of its capacity left."""
        return math.ceil(rate / (self.requests * (1 - headroom)))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What was asked for and no engine starts. why: as `serve` refuses it."""

    device: str
    engine: str
    dtype: str
    why: str


@dataclass(frozen=True, slots=True)
class Found:
    """front: plans that no other beats in both tokens a second and GPU and in what one user sees, the most users
    ahead. best: the cheapest that meets the SLO, or without prices that with the most tokens a GPU; None where
    none does. nearest: where none does, the one that misses it by least, every request simulated; None where no layout
    holds the model. tried: plans that were timed; beyond_tool: of the layouts those that the tool does not start;
    fitting: of the rest those that hold the model. left_out: devices, engines and formats that were not tried.
    interrupted: whether Ctrl-C ended the search."""

    front: tuple[ServingPlan, ...]
    best: ServingPlan | None
    nearest: ServingPlan | None
    tried: int
    layouts: int
    beyond_tool: int
    fitting: int
    left_out: tuple[LeftOut, ...] = ()
    interrupted: bool = False
