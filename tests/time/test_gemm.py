"""Times of matrix products: near measured ones, within physics, the same after storing and on each run."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc.spec.catalogue import load_device
from calc.time.device.profile import shipped_profile
from calc.time.models.gemm import GemmModel
from calc.time.models.limits import Limits, limits_of
from harness.importing.choosing import chosen
from harness.importing.fitting import Wanted, import_table
from harness.importing.kinds import KINDS
from harness.importing.reading import numbers, read_table
from tests.reference import folder

H100 = limits_of(load_device("h100-sxm"), "bf16")
CPU = Limits(peak=1.2e11, bandwidth=2.0e10, itemsize=4)
TABLES = (("SGLang", "0.5.14"), ("SGLang", "0.5.6.post2"), ("TRTLLM", "1.3.0rc20"), ("VLLM", "0.24.0"))
"""None of their rows beats the peak, nor memory with the cache that may hold what a benchmark repeats."""

dims = st.integers(1, 65536)


@cache
def shipped() -> GemmModel:
    found = shipped_profile("h100-sxm")
    assert found is not None
    model = found.gemm["bf16"]
    assert isinstance(model, GemmModel)
    return model


def gemm_table(framework: str, version: str) -> tuple[dict[str, Any], Any]:
    """Shapes and seconds that one version of a framework was measured at."""
    frame = _frame()
    frame = frame[(frame["framework"] == framework) & (frame["version"] == version)]
    return KINDS["gemm"].shape(frame, "table"), numbers(frame, "latency_ms", "table", 0) * 1e-3


@cache
def _frame() -> Any:
    return read_table(path())


def path() -> Path:
    return folder() / "measured" / "kernels" / "aic_h100_sxm_gemm_bf16.csv.gz"


def error(name: tuple[str, str], points: int, seed: int) -> float:
    """Mean error on every row of a table but the chosen ones."""
    [found] = import_table(path(), load_device("h100-sxm"), Wanted(*name, points=points, seed=seed), print)
    assert found.fit.points == points
    assert found.fit.points + found.fit.held_out + found.impossible == found.rows
    assert found.impossible == 0
    return found.fit.mape


@pytest.mark.parametrize("name", TABLES)
def test_no_row_is_faster_than_possible(name: tuple[str, str]) -> None:
    shape, seconds = gemm_table(*name)
    assert (seconds >= GemmModel.prior(H100).physics(shape).least).all()
    flops = 2 * shape["m"] * shape["n"] * shape["k"]
    assert (flops / seconds < H100.peak).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", TABLES)
def test_300_points_predict_the_others_within_7_percent(name: tuple[str, str], seed: int) -> None:
    assert error(name, 300, seed) < 0.065


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_1000_points_predict_the_others_within_6_percent(name: tuple[str, str]) -> None:
    assert error(name, 1000, 0) < 0.06


@pytest.mark.slow
def test_weights_of_unseen_shapes() -> None:
    """Every (n, k) is either fitted to or tested, not both."""
    shape, seconds = gemm_table("VLLM", "0.24.0")
    rng = np.random.default_rng(0)
    weights, which = np.unique(np.stack([shape["n"], shape["k"]]), axis=1, return_inverse=True)
    seen = rng.random(weights.shape[1]) < 0.5
    fitted = np.flatnonzero(seen[which.ravel()])
    fitted = fitted[chosen({key: column[fitted] for key, column in shape.items()}, 300, 0)]
    model = GemmModel.fit({key: column[fitted] for key, column in shape.items()}, seconds[fitted], H100)
    rest = np.flatnonzero(~seen[which.ravel()])
    predicted = model.predicted({key: column[rest] for key, column in shape.items()})
    assert np.abs(predicted / seconds[rest] - 1).mean() < 0.06


def test_shipped_profile_holds_its_error() -> None:
    shape, seconds = gemm_table("VLLM", "0.24.0")
    ratio = shipped().predicted(shape) / seconds
    low, high = shipped().interval(0.9)
    assert np.abs(ratio - 1).mean() < 0.05
    assert ((1 / ratio >= low) & (1 / ratio <= high)).mean() == pytest.approx(0.9, abs=0.05)


@given(dims, dims, dims, st.integers(1, 512))
@settings(deadline=None)
def test_within_physics(m: int, n: int, k: int, batch: int) -> None:
    found = shipped().seconds(m, n, k, batch)
    assert np.isfinite(found)
    assert found >= 2 * m * n * k * batch / H100.peak
    assert found >= (2 * batch * (m * k + n * k + m * n) - (H100.l2 or 0)) / H100.bandwidth
    assert found >= 1e-6


@given(st.integers(1, 16384), st.integers(5, 15), st.integers(5, 15), st.sampled_from(["m", "n", "k"]))
@settings(deadline=None)
def test_twice_the_work_is_not_much_faster(m: int, n: int, k: int, which: str) -> None:
    """Libraries pick kernels by shape: in the table, twice a size takes 12 to 16 % less once in 1,000 times."""
    sizes = {"m": m, "n": 2**n, "k": 2**k}
    twice = sizes | {which: 2 * sizes[which]}
    assert shipped().seconds(**twice) > 0.92 * shipped().seconds(**sizes)


def test_numbers_and_arrays_agree() -> None:
    m, n, k = np.array([1.0, 128.0, 8192.0]), np.array([4096.0, 4096.0, 8192.0]), np.array([4096.0, 11008.0, 8192.0])
    columns = shipped().seconds(m, n, k)
    singles = [shipped().seconds(int(a), int(b), int(c)) for a, b, c in zip(m, n, k, strict=True)]
    assert all(isinstance(single, float) for single in singles)
    assert columns.tolist() == pytest.approx(singles, rel=1e-12)


def test_known_rates_of_an_h100() -> None:
    """8192 cubed at 700 to 850 TFLOP/s; one token against a 100 MB weight at 75 to 95 % of the bandwidth."""
    assert 700e12 < 2 * 8192**3 / shipped().seconds(8192, 8192, 8192) < 850e12
    weight = 2 * 7168 * 7168
    assert 0.75 < weight / shipped().seconds(1, 7168, 7168) / H100.bandwidth < 0.95


def test_an_h200_differs_by_its_bandwidth() -> None:
    h200 = limits_of(load_device("h200"), "bf16")
    moved = shipped().moved(H100, h200)
    faster = h200.bandwidth / H100.bandwidth
    assert moved.limits.cores == H100.cores
    # Bound by arithmetic: as it was. Bound by memory: faster by nearly the ratio of bandwidths, and never by more.
    assert moved.seconds(8192, 8192, 8192) == pytest.approx(shipped().seconds(8192, 8192, 8192), rel=0.03)
    ratio = shipped().seconds(4, 16384, 16384) / moved.seconds(4, 16384, 16384)
    assert 0.9 * faster < ratio <= 1.03 * faster


def test_the_learned_part_hardly_changes_on_another_device() -> None:
    """It was learned on an H100; if it turned on seconds, a faster memory would throw it about."""
    rng = np.random.default_rng(0)
    shape: dict[str, Any] = {key: np.exp2(rng.uniform(4, 14, 4000)).round() for key in ("m", "n", "k")}
    shape["batch"] = np.ones(4000)
    model, moved = shipped(), shipped().moved(H100, limits_of(load_device("h200"), "bf16"))
    assert model.residual is not None
    before, after = (model.residual.log_ratio(each.physics(shape).features) for each in (model, moved))
    assert np.abs(after - before).mean() < 0.02


def _points(count: int, limits: Limits, noise: float) -> tuple[dict[str, Any], Any]:
    """Products as a CPU might run them: a smooth roofline with a cost per call, slower for narrow ones."""
    rng = np.random.default_rng(1)
    shape: dict[str, Any] = {key: np.exp2(rng.uniform(3, 11, count)).round() for key in ("m", "n", "k")}
    m, n, k = shape["m"], shape["n"], shape["k"]
    rate = limits.peak * 0.8 * (m / (m + 12)) * (n / (n + 20)) * (k / (k + 30))
    seconds = 5e-6 + 2 * m * n * k / rate + 4 * (m * k + k * n + m * n) / limits.bandwidth
    return shape, seconds * np.exp(rng.normal(0, noise, count))


@pytest.mark.slow
def test_a_device_without_known_cores() -> None:
    shape, seconds = _points(600, CPU, 0.02)
    fitted, rest = ({key: c[s] for key, c in shape.items()} for s in (slice(0, 300), slice(300, None)))
    model = GemmModel.fit(fitted, seconds[:300], CPU)
    assert np.abs(model.seconds(**rest) / seconds[300:] - 1).mean() < 0.06


def test_few_points_leave_plain_physics() -> None:
    shape, seconds = _points(60, CPU, 0.02)
    model = GemmModel.fit({key: c[:20] for key, c in shape.items()}, seconds[:20], CPU)
    assert model.residual is None
    rest = {key: column[20:] for key, column in shape.items()}
    assert np.abs(model.seconds(**rest) / seconds[20:] - 1).mean() < 0.3


def test_storing_changes_nothing_and_fitting_is_deterministic() -> None:
    shape, seconds = _points(80, CPU, 0.02)
    model = GemmModel.fit(shape, seconds, CPU, "made up", seed=3)
    again = GemmModel.fit(shape, seconds, CPU, "made up", seed=3)
    assert model == again
    read = GemmModel.model_validate_json(model.model_dump_json())
    assert read == model
    assert (read.seconds(**shape) == model.seconds(**shape)).all()
    assert len(model.model_dump_json()) < 60_000
