"""Many measured servers at once: the numbers of their ranks, rates and workloads as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any

from calc.serve.capacity import sequences_that_fit
from calc.serve.formats import served_format
from calc.serve.layout import Layout, layout_of
from calc.serve.rank import Rank, rank_of
from calc.serve.rates import Constants, rates_of, request_seconds
from calc.serve.steady import Lengths, OperatingPoint, Steady, lengths_of, steady, with_burst
from calc.serve.step import Rates
from calc.serve.work import work_of
from calc.spec import ModelSpec
from calc.spec.catalogue import load_device
from calc.spec.hardware import Device
from calc.spec.run.engines import Engine, engine_named
from harness.serving.rows import GPUS, ServedRow

BURST = 0.1
"""Of all requests, those that a benchmark of ten times its concurrency sends at once when it begins."""


@dataclass(frozen=True, slots=True)
class Case:
    """A measured server, described."""

    row: ServedRow
    spec: ModelSpec
    device: Device
    layout: Layout
    engine: Engine
    rank: Rank
    latent: bool
    budget: int
    running: float

    @property
    def together(self) -> bool:
        """Whether all requests stay in step: lengths are fixed, and prompts go ahead of sequences that decode."""
        return not self.engine.mixed and self.row.exact


def case_of(row: ServedRow, spec: ModelSpec) -> Case:
    """A row as the product describes it. Errors: Refused for what cannot be."""
    device, engine = load_device(GPUS.get(row.gpu, row.gpu)), engine_named(row.engine)
    budget = row.budget or engine.batched_tokens
    layout = layout_of(spec, **{**row.layout, "gpus": None})
    work = work_of(spec)
    rank = rank_of(work, layout, served_format(row.dtype), row.cache)
    fitting = sequences_that_fit(rank, device, engine, budget, row.mean_input + row.mean_output / 2)
    running = min(fitting, engine.max_seqs) * layout.attention_dp
    return Case(row, spec, device, layout, engine, rank, work.latent, budget, running)


def columns(cases: Sequence[Case]) -> tuple[Any, OperatingPoint, Lengths]:
    """Ranks, workloads and what attention asks at their lengths, a column each."""
    import numpy as np

    names = [each.name for each in fields(Rank) if not each.name.endswith(("decode_bytes", "_flops", "cached_bytes"))]
    names.append("other_flops")
    ranks = SimpleNamespace(**{name: np.array([float(getattr(c.rank, name)) for c in cases]) for name in names})
    point = OperatingPoint(
        input=np.array([c.row.mean_input for c in cases]),
        output=np.array([c.row.mean_output for c in cases]),
        concurrency=np.array([c.row.concurrency for c in cases]),
        budget=np.array([float(c.budget) for c in cases]),
        running=np.array([float(c.running) for c in cases]),
        polls=np.array([float(c.row.polls) for c in cases]),
        together=np.array([float(c.row.spread == 0 and (c.engine.mixed or c.row.exact)) for c in cases]),
    )
    found = [lengths_of(c.rank, c.row.mean_input, c.row.mean_output) for c in cases]
    return ranks, point, Lengths(*(np.array(column, dtype=float) for column in zip(*found, strict=True)))


def rates_columns(cases: Sequence[Case], given: Constants) -> Rates:
    """The rates of all cases under some constants."""
    import numpy as np

    asked = [(c.device.name, c.row.dtype, c.row.engine, c.layout.wide, c.latent) for c in cases]
    devices = {c.device.name: c.device for c in cases}
    known = {
        key: rates_of(devices[key[0]], served_format(key[1]), *key[2:], given=given) for key in dict.fromkeys(asked)
    }
    return Rates(*(np.array(column, dtype=float) for column in zip(*(known[key] for key in asked), strict=True)))


def predicted(
    cases: Sequence[Case], given: Constants, ready: tuple[Any, OperatingPoint, Lengths] | None = None
) -> Steady:
    """What a benchmark of every case measures in the mean: its steady state, and the burst with which it begins."""
    import numpy as np

    ranks, point, lengths = columns(cases) if ready is None else ready
    point = point._replace(together=point.together * given["together"])
    rates = rates_columns(cases, given)
    request = np.array([request_seconds(c.row.engine, c.row.mean_input, given) for c in cases])
    mixed = np.array([float(c.engine.mixed) for c in cases])
    found = steady(ranks, rates, point, lengths, request, mixed)
    bursts = np.array([1.0 if c.together else BURST for c in cases])
    return with_burst(ranks, rates, point, lengths, found, request, bursts)
