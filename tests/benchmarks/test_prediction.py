"""Speed of fitting a model of time and of asking it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calc.spec.catalogue import load_device
from calc.time.device.profile import PROFILES, read_profile, shipped_profile
from calc.time.models.gemm import GemmModel
from calc.time.models.limits import limits_of

LIMITS = limits_of(load_device("h100-sxm"), "bf16")


def _shapes(count: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {key: np.exp2(rng.uniform(0, 14, count)).round() for key in ("m", "n", "k")}


def _shipped() -> GemmModel:
    found = shipped_profile("h100-sxm")
    assert found is not None
    model = found.gemm["bf16"]
    assert isinstance(model, GemmModel)
    return model


def test_fit_300_products(benchmark: Any) -> None:
    shape = _shapes(300)
    seconds = _shipped().seconds(**shape)
    model = benchmark.pedantic(GemmModel.fit, (shape, seconds, LIMITS), rounds=1)
    assert model.spread.mape < 0.1


def test_predict_30_000_products(benchmark: Any) -> None:
    model, shape = _shipped(), _shapes(30_000)
    found = benchmark.pedantic(model.seconds, kwargs=shape, rounds=3)
    assert found.shape == (30_000,)


@pytest.mark.slow
@pytest.mark.benchmark(group="10^6 times are to be predicted in at most 1 s")
def test_predict_a_million_products(benchmark: Any) -> None:
    model, shape = _shipped(), _shapes(1_000_000)
    found = benchmark.pedantic(model.seconds, kwargs=shape, rounds=2)
    assert found.shape == (1_000_000,)


@pytest.mark.benchmark(group="a profile is to be read in at most 20 ms")
def test_read_the_largest_profile(benchmark: Any) -> None:
    largest = max(PROFILES.glob("*.json"), key=lambda path: path.stat().st_size)
    assert benchmark(read_profile, largest).gemm


def test_predict_one_product(benchmark: Any) -> None:
    assert benchmark(_shipped().seconds, 512, 4096, 4096) > 0
