"""How fast serving is worked out: 100,000 configurations a second in closed form, 10,000 requests in two seconds."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from calc.serve.operating_point import Lengths, OperatingPoint, lengths_of
from calc.serve.rank import Rank
from calc.serve.simulate import simulate
from calc.serve.steady import steady
from calc.serve.step import Rates
from calc.serve.workload import closed_loop
from tests.serve.services import llama

pytestmark = pytest.mark.slow

CHUNK = 4096
"""Configurations of one call, so that their columns stay in a core's cache."""


def columns() -> tuple[Any, Rates, OperatingPoint, Lengths]:
    """Servers that differ in everything a search varies, as columns."""
    services = [llama(tp=tp, dtype=dtype) for tp in (1, 2, 4, 8) for dtype in ("bf16", "fp8")]
    which = np.arange(CHUNK) % len(services)
    plain = [name for name in Rank.__dataclass_fields__ if np.ndim(getattr(services[0].rank, name)) == 0]
    ranks = SimpleNamespace(
        **{name: np.array([float(getattr(each.rank, name)) for each in services])[which] for name in plain}
    )
    rates = Rates(*(np.array(column, dtype=float)[which] for column in zip(*(s.rates for s in services), strict=True)))
    draw = np.random.default_rng(0)
    asked = OperatingPoint(
        input=draw.integers(128, 8192, CHUNK).astype(float),
        output=draw.integers(32, 2048, CHUNK).astype(float),
        concurrency=2.0 ** draw.integers(0, 9, CHUNK),
        budget=np.full(CHUNK, 8192.0),
        running=np.full(CHUNK, 256.0),
    )
    each = [lengths_of(service.rank, asked.input, asked.output) for service in services]
    lengths = Lengths(
        *(np.choose(which, [getattr(found, name) for found in each]) for name in ("cache", "decoding", "prompt"))
    )
    return ranks, rates, asked, lengths


@pytest.mark.benchmark(group="100,000 configurations in closed form are to take at most a second on one core")
def test_closed_form(benchmark: Any) -> None:
    ranks, rates, asked, lengths = columns()
    found = benchmark(steady, ranks, rates, asked, lengths, 0.05, np.ones(CHUNK))
    assert np.all(found.tpot > 0)
    before = time.process_time()
    for _ in range(5):
        steady(ranks, rates, asked, lengths, 0.05, np.ones(CHUNK))
    assert (time.process_time() - before) / (5 * CHUNK) < 1e-5


@pytest.mark.benchmark(group="10,000 requests of 1,000 tokens at 256 are to take at most 2 s", min_rounds=2)
def test_simulation(benchmark: Any) -> None:
    service = llama()
    workload = closed_loop(256, 1000, 1000, 10_000, spread=0.2, seed=1)

    def once() -> float:
        before = time.process_time()
        run = simulate(workload, lambda: service.server(2000.0), lambda request: 0.03)
        assert len(run.answered) == 10_000
        return time.process_time() - before

    assert benchmark.pedantic(once, rounds=2) < 2.0
