"""Speed of fitting a model of time and of asking it."""

from __future__ import annotations

from typing import Any

import numpy as np

from calc.spec.catalogue import load_device
from calc.time.device.limits import limits_of
from calc.time.device.profile import shipped_profile
from calc.time.kernels.gemm import GemmModel

LIMITS = limits_of(load_device("h100-sxm"), "bf16")


def _shapes(count: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {key: np.exp2(rng.uniform(0, 14, count)).round() for key in ("m", "n", "k")}


def _shipped() -> GemmModel:
    found = shipped_profile("h100-sxm")
    assert found is not None
    return found.gemm["bf16"]


def test_fit_300_products(benchmark: Any) -> None:
    shape = _shapes(300)
    seconds = _shipped().seconds(**shape)
    model = benchmark.pedantic(GemmModel.fit, (shape, seconds, LIMITS), rounds=1)
    assert model.spread.mape < 0.1


def test_predict_30_000_products(benchmark: Any) -> None:
    model, shape = _shipped(), _shapes(30_000)
    found = benchmark.pedantic(model.seconds, kwargs=shape, rounds=3)
    assert found.shape == (30_000,)


def test_predict_one_product(benchmark: Any) -> None:
    assert benchmark(_shipped().seconds, 512, 4096, 4096) > 0
