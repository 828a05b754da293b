"""Many measured servers at once: the numbers of their ranks, rates and workloads as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any, NamedTuple

from calc.serve.constants import Constants
from calc.serve.formats import served_format
from calc.serve.operating_point import Lengths, OperatingPoint, lengths_of
from calc.serve.rank import Rank
from calc.serve.rates import rates_of, request_seconds
from calc.serve.service import Service
from calc.serve.steady import Steady, steady, with_burst
from calc.serve.step import Rates
from calc.spec import ModelSpec
from calc.spec.catalogue import load_device
from calc.spec.hardware import Device
from calc.spec.run.engines import Engine
from harness.serving.rows import ServedRow
from harness.serving.scoring import services

RateKey = tuple[str, str, str, int, bool, int, int]
"""What the rates of a case rest on: its device, format, engine, ranks that sums cross, whether attention is latent,
stages, groups of ranks."""

HELD = ("holding", "filled", "gathered", "further")
"""Fields of an operating point that say for how long prompts are held back."""

CHUNK = 2**12
"""Cases predicted together, so that their columns stay in a core's cache."""


@dataclass(frozen=True, slots=True)
class Case:
    """A measured server, described. running: sequences that it runs at once, at most."""

    row: ServedRow
    service: Service
    running: float

    @property
    def spec(self) -> ModelSpec:
        """Its model."""
        return self.service.spec

    @property
    def rank(self) -> Rank:
        """What one of its GPUs holds and does."""
        return self.service.rank

    @property
    def engine(self) -> Engine:
        """The engine's rules."""
        return self.service.engine

    @property
    def key(self) -> RateKey:
        """What its rates rest on."""
        device, layout, row = self.service.device, self.service.layout, self.row
        latent = self.service.work.latent
        return device.name, row.dtype, row.engine, layout.tp, latent, layout.pp, layout.attention_dp

    @property
    def together(self) -> bool:
        """Whether all requests stay in step: lengths are fixed, and prompts go ahead of sequences that decode."""
        return not self.engine.mixed and self.row.exact


def case_of(row: ServedRow, spec: ModelSpec) -> Case:
    """A row as the product describes it. Errors: Refused for what cannot be."""
    reading, making = services(row, spec)
    service = making or reading
    return Case(row, service, service.running(row.mean_input, row.mean_output))


@dataclass(frozen=True, slots=True)
class Columns:
    """Many cases: ranks, workloads and what attention asks at their lengths, a column each; and what of them constants
    are read by. keys, engines: all that there are; key, engine: which of them each case has. bursts: of requests, those
    that come at once when a benchmark begins."""

    ranks: Any
    point: OperatingPoint
    lengths: Lengths
    keys: tuple[RateKey, ...]
    key: Any
    engines: tuple[str, ...]
    engine: Any
    mixed: Any
    bursts: Any
    devices: dict[str, Device]

    def of(self, rows: Any) -> Columns:
        """The columns of some cases, as often as each is named."""
        ranks = SimpleNamespace(**{name: column[rows] for name, column in vars(self.ranks).items()})
        given = [column[rows] if getattr(column, "ndim", 0) else column for column in self.point]
        point, lengths = OperatingPoint(*given), Lengths(*(column[rows] for column in self.lengths))
        key, engine, mixed, bursts = (column[rows] for column in (self.key, self.engine, self.mixed, self.bursts))
        return Columns(ranks, point, lengths, self.keys, key, self.engines, engine, mixed, bursts, self.devices)


class Priced(NamedTuple):
    """What some constants say of cases: their rates, a row for each of `keys` and then one for each case; seconds of
    the host for a request of each; and of those that come in step, how many do."""

    rates: Any
    request: Any
    together: float


def columns(cases: Sequence[Case]) -> Columns:
    """The cases as columns."""
    import numpy as np

    names = [each.name for each in fields(Rank) if not each.name.endswith(("decode_bytes", "_flops", "cached_bytes"))]
    names.append("other_flops")
    ranks = SimpleNamespace(**{name: np.array([float(getattr(c.rank, name)) for c in cases]) for name in names})
    waits = [c.service.held() for c in cases]
    point = OperatingPoint(
        input=np.array([c.row.mean_input for c in cases]),
        output=np.array([c.row.mean_output for c in cases]),
        concurrency=np.array([c.row.concurrency for c in cases]),
        budget=np.array([float(c.service.budget) for c in cases]),
        running=np.array([c.running for c in cases]),
        polls=np.array([float(c.row.polls) for c in cases]),
        ahead=np.array([float(c.engine.ahead) for c in cases]),
        **{name: np.array([each.get(name, 0.0) for each in waits]) for name in HELD},
        together=np.array([float(c.row.spread == 0 and (c.engine.mixed or c.row.exact)) for c in cases]),
    )
    found = [lengths_of(c.rank, c.row.mean_input, c.row.mean_output) for c in cases]
    asked = [c.key for c in cases]
    keys, engines = tuple(dict.fromkeys(asked)), tuple(dict.fromkeys(c.row.engine for c in cases))
    return Columns(
        ranks,
        point,
        Lengths(*(np.array(column, dtype=float) for column in zip(*found, strict=True))),
        keys,
        np.array([keys.index(each) for each in asked]),
        engines,
        np.array([engines.index(c.row.engine) for c in cases]),
        np.array([float(c.engine.mixed) for c in cases]),
        np.array([1.0 if c.together else 1 / c.row.rounds for c in cases]),
        {key[0]: load_device(key[0]) for key in keys},
    )


def priced(ready: Columns, given: Constants) -> Priced:
    """What constants say of cases: rates of each key, seconds of a request of each case."""
    (found,) = priced_each(ready, given, 1)
    return found


def priced_each(ready: Columns, given: Constants, many: int) -> list[Priced]:
    """The same of so many constants at once. given: of each constant a column of what it is in turn, or a number."""
    import numpy as np

    table, request = np.zeros((many, len(ready.keys), len(Rates._fields))), np.zeros((many, len(ready.engine)))
    for at, (device, form, engine, ranks, latent, *laid) in enumerate(ready.keys):
        rates = rates_of(ready.devices[device], served_format(form), engine, ranks, latent, given, *laid)
        for field, column in enumerate(rates):
            table[:, at, field] = column
    for at, engine in enumerate(ready.engines):
        own = ready.engine == at
        tokens = ready.point.input[own]
        if many == 1:
            request[:, own] = request_seconds(engine, tokens, given)
        else:
            wide = {name: column[:, None] for name, column in given.items()}
            request[:, own] = request_seconds(engine, tokens, wide)
    together = np.broadcast_to(given["together"], many)
    return [Priced(table[i], request[i], float(together[i])) for i in range(many)]


def predicted(cases: Sequence[Case], given: Constants, ready: Columns | None = None) -> Steady:
    """What a benchmark of every case measures in the mean: its steady state, and the burst with which it begins."""
    known = columns(cases) if ready is None else ready
    price = priced(known, given)
    return _steady(known, price.rates[known.key], price.request, price.together)


def predicted_beside(ready: Columns, many: Sequence[Priced], rows: Sequence[Any]) -> Steady:
    """The same under many constants at once: of each, the cases that are named, one after the other in one column."""
    import numpy as np

    every = np.concatenate(rows)
    rates = np.concatenate([each.rates[ready.key[own]] for each, own in zip(many, rows, strict=True)])
    request = np.concatenate([each.request[own] for each, own in zip(many, rows, strict=True)])
    together = np.concatenate([np.full(len(own), each.together) for each, own in zip(many, rows, strict=True)])
    parts = [slice(start, start + CHUNK) for start in range(0, len(every), CHUNK)]
    found = [_steady(ready.of(every[one]), rates[one], request[one], together[one]) for one in parts]
    return Steady(*map(np.concatenate, zip(*found, strict=True)))


def _steady(ready: Columns, by_case: Any, request: Any, together: Any) -> Steady:
    import numpy as np

    rates, ranks, lengths = Rates(*np.ascontiguousarray(by_case.T)), ready.ranks, ready.lengths
    point = ready.point._replace(together=ready.point.together * together)
    found = steady(ranks, rates, point, lengths, request, ready.mixed)
    return with_burst(ranks, rates, point, lengths, found, request, ready.bursts)
