"""How fast models of attention are fitted, and how fast they predict."""

from __future__ import annotations

from typing import Any

import pytest

from calc.time.models.decoding import DecodeModel
from calc.time.models.flash import AttentionModel
from tests.time.test_attention import H100, caches, noisy, prompts

pytestmark = pytest.mark.slow

KINDS = [(AttentionModel, prompts), (DecodeModel, caches)]


@pytest.mark.benchmark(group="a fit of attention to 300 points is to take at most 10 s")
@pytest.mark.parametrize(("kind", "made"), KINDS)
def test_fit(benchmark: Any, kind: Any, made: Any) -> None:
    shape = made(300)
    seconds = noisy(kind.prior(H100), shape)
    model = benchmark.pedantic(lambda: kind.fit(shape, seconds, H100), rounds=1)
    assert model.points == 300


@pytest.mark.benchmark(group="30,000 times of attention are to be predicted in at most 1 s")
@pytest.mark.parametrize(("kind", "made"), KINDS)
def test_predict(benchmark: Any, kind: Any, made: Any) -> None:
    few, many = made(60), made(30_000)
    model = kind.fit(few, noisy(kind.prior(H100), few), H100)
    found = benchmark.pedantic(lambda: model.predicted(many), rounds=3)
    assert len(found) == 30_000
