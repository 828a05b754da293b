"""Measuring a profile, in seconds, and reading it back for predictions."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from calc import Shorthand
from calc.errors import Refused
from calc.time import predict
from calc.time.device.profile import Fit, Launch, Profile, Provenance, read_profile, shipped_profile
from calc.time.models.smooth import SmoothAttention, SmoothDecode, SmoothGemm
from harness.__main__ import cli
from harness.cli.run import measured_otherwise
from harness.kernels import KERNELS
from harness.profiling.clock import Pool
from harness.profiling.fit import left_out, profile_of
from harness.profiling.overhead import of_gpu, small_model
from harness.profiling.profiler import measure_profile, write_profile
from harness.profiling.samples import Key, Samples, Station, collect, halton, interleaved
from harness.profiling.shapes import REACH, attention_shapes, layers
from tests.harness.made import environment
from tests.harness.short_profile import measure_short_profile
from tests.reference import ROOT


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results with the profile of a few seconds."""
    folder = tmp_path_factory.mktemp("results")
    assert measure_short_profile(folder).is_relative_to(folder)
    return folder


@pytest.mark.slow
def test_a_few_seconds_give_a_whole_profile(measured: Path) -> None:
    (path,) = (measured / "profiles").iterdir()
    profile = read_profile(path)
    assert profile.kind == "cpu"
    assert {"fp32", "fp32.dgrad", "fp32.wgrad"} <= profile.gemm.keys()
    assert {"copy", "layernorm", "layernorm.backward", "softmax", "adamw", "fill"} <= profile.passes["fp32"].keys()
    assert profile.launch is not None
    assert profile.environment["peak"]["fp32"] > 0
    assert "gemm.fp32" in profile.fits
    assert path.stat().st_size < 300_000


@pytest.mark.slow
def test_a_measured_profile_predicts(measured: Path) -> None:
    (path,) = (measured / "profiles").iterdir()
    spec = Shorthand(d_model=128, n_layers=2, n_heads=2, vocab_size=1000, max_seq_len=64).expand()
    asked = {"batch": 1, "seq": 64, "dtype": "fp32", "execution": "eager"}
    forward, training = (predict(spec, read_profile(path), phase=phase, **asked) for phase in ("forward", "training"))
    assert 0 < forward.seconds < training.seconds
    assert training.interval.low < training.seconds < training.interval.high
    assert training.basis == "profile"


def test_points_are_as_many_as_allowed_and_differ() -> None:
    for reach in REACH.values():
        dense, core = layers(reach, 40, 1e9), attention_shapes(reach, 7, 1e9)
        products = sum(3 if layer.trained else 1 for layer in dense) + 6 * len(core)
        assert 2 * products <= 300
        assert len(set(dense)) == len(dense)
        assert all(layer.flops <= 1.5e9 or layer.tokens <= 32 for layer in dense)
        assert any(layer.tokens <= 8 for layer in dense)


def test_beginnings_of_a_sequence_are_spread_too() -> None:
    for count in (8, 32):
        places = np.array(list(halton(count)))
        assert ((places >= 0) & (places < 1)).all()
        assert np.abs(places.mean(axis=0) - 0.5).max() < 0.13


class Watch:
    """A clock that stations move on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def station(self, name: str, takes: float) -> Station:
        def measure() -> Iterator[tuple[Key, float]]:
            self.now += takes
            yield Key("group", (float(len(name)),)), takes

        return Station(name, measure)


@given(takes=st.lists(st.floats(0.1, 5), min_size=1, max_size=12), seconds=st.floats(5, 60))
def test_a_budget_is_kept_but_for_one_station(takes: list[float], seconds: float) -> None:
    watch, told = Watch(), list[tuple[int, int]]()
    stations = [watch.station("x" * i, each) for i, each in enumerate(takes)]
    samples = collect(stations, seconds, lambda done, total, _: told.append((done, total)), now=watch)
    assert watch.now <= seconds + max(takes)
    assert told[-1] == (3 * len(takes), 3 * len(takes))
    if seconds > 3.2 * sum(takes):
        assert samples.rounds == 3
        assert all(len(times) == 3 for times in samples.seconds.values())


def test_rounds_are_in_different_orders_and_the_same_each_time() -> None:
    def order() -> list[list[str]]:
        visited: list[str] = []

        def station(name: str) -> Station:
            def measure() -> Iterator[tuple[Key, float]]:
                visited.append(name)
                yield Key("g", ()), 1.0

            return Station(name, measure)

        collect([station(str(i)) for i in range(9)], 60, now=Watch())
        return [visited[at : at + 9] for at in (0, 9, 18)]

    assert order() == order()
    first, second, third = order()
    assert first == sorted(first)
    assert first != second != third
    assert set(second) == set(first)


def test_what_fails_is_named_and_costs_no_more() -> None:
    def fail() -> Iterator[tuple[Key, float]]:
        raise RuntimeError("not enough memory\nfor this")
        yield

    watch = Watch()
    samples = collect([Station("bad", fail), watch.station("good", 1.0)], 60, now=watch)
    assert samples.failed == {"bad": "RuntimeError: not enough memory"}
    assert samples.medians("group") == [((4.0,), 1.0)]


def test_lists_are_spread_over_the_whole() -> None:
    watch = Watch()
    many, few = ([watch.station(f"{name}{i}", 1.0) for i in range(n)] for name, n in (("a", 8), ("b", 2)))
    names = [each.name for each in interleaved(many, few)]
    assert [name for name in names if name[0] == "a"] == [f"a{i}" for i in range(8)]
    assert [names.index(f"b{i}") for i in range(2)] == [1, 6]


def test_the_middle_of_three_visits_counts() -> None:
    samples = Samples({Key("g", (1.0,)): [3.0, 1.0, 2.0], Key("g", (2.0,)): [5.0, 4.0]})
    assert samples.medians("g") == [((1.0,), 2.0), ((2.0,), 4.0)]


def test_knots_left_out_are_found_from_their_neighbours() -> None:
    assert left_out([(1.0, 1.0), (10.0, 10.0), (100.0, 100.0)]) == [pytest.approx(1.0)]
    assert left_out([(1.0, 1.0), (10.0, 20.0), (100.0, 100.0)]) == [pytest.approx(2.0)]


def products(seed: int, count: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Products on a made-up machine whose speed bends with their sizes, with 2 % of noise."""
    rng = np.random.default_rng(seed)
    m, n, k = np.exp(rng.uniform(np.log(32), np.log(2048), (3, count)))
    seconds = 2 * m * n * k / 1e11 * (1 + 60 / k + 40 / n) + (m * k + n * k + m * n) * 4 / 1e10 + 5e-6
    return {"m": m, "n": n, "k": k, "batch": np.ones(count)}, seconds * np.exp(rng.normal(0, 0.02, count))


def test_a_smooth_model_finds_what_it_has_not_seen() -> None:
    model = SmoothGemm.fit({"fp32": products(0, 40)}, 4.0)["fp32"]
    shape, seconds = products(1, 500)
    error = np.abs(model.seconds(*shape.values()) / seconds - 1)
    assert error.mean() < 0.05
    assert model.spread is not None
    assert model.spread.mape == pytest.approx(error.mean(), abs=0.03)


def test_layouts_help_each_other() -> None:
    shape, seconds = products(0, 40)
    few = {name: column[:4] for name, column in shape.items()}
    alone = SmoothGemm.fit({"slow": (few, 2 * seconds[:4])}, 4.0)["slow"]
    found = SmoothGemm.fit({"fast": (shape, seconds), "slow": (few, 1.1 * seconds[:4])}, 4.0)
    shape, seconds = products(1, 200)
    with_others = np.abs(found["slow"].seconds(*shape.values()) / (1.1 * seconds) - 1).mean()
    assert with_others < np.abs(alone.seconds(*shape.values()) / (2 * seconds) - 1).mean()
    assert with_others < 0.1


def test_a_smooth_model_keeps_through_json_and_is_the_same_each_time() -> None:
    model = SmoothGemm.fit({"a": products(0, 30)}, 4.0)["a"]
    assert model == SmoothGemm.fit({"a": products(0, 30)}, 4.0)["a"]
    assert SmoothGemm.model_validate_json(model.model_dump_json()) == model


@given(m=st.integers(1, 2**20), n=st.integers(1, 2**20), k=st.integers(1, 2**20), batch=st.integers(1, 4096))
def test_far_from_all_points_physics_stays(m: int, n: int, k: int, batch: int) -> None:
    seconds = FITTED.seconds(m, n, k, batch)
    plain = 2 * m * n * k * batch * FITTED.per_flop
    assert 0 < seconds < float("inf")
    assert seconds > plain / 5


FITTED = SmoothGemm.fit({"fp32": products(0, 30)}, 4.0)["fp32"]


def test_smooth_attention_and_decoding_answer_columns_and_numbers() -> None:
    rng = np.random.default_rng(0)
    seq, heads = rng.integers(16, 1024, 12).astype(float), rng.integers(1, 16, 12).astype(float)
    one = np.ones(12)
    shape = {"batch": one, "heads": heads, "kv_heads": heads, "seq": seq, "keys": seq, "d_head": 64 * one}
    shape |= {"d_value": 64 * one, "causal": one, "window": 0 * one}
    seconds = heads * seq**2 * 64 * 2 / 5e10 + 1e-5
    model = SmoothAttention.fit({"": (shape, seconds)}, 4.0)[""]
    assert model.seconds(1, 8, 8, 300, None, 64) == pytest.approx(8 * 300**2 * 128 / 5e10 + 1e-5, rel=0.1)
    assert model.seconds(1, 8, 8, 300, None, 64) < model.seconds(1, 8, 8, 300, None, 64, causal=False)
    cache = {name: shape[name] for name in ("batch", "heads", "kv_heads", "d_head", "d_value", "window")}
    cache |= {"context": seq, "latent": 0 * one}
    decode = SmoothDecode.fit({"": (cache, heads * seq * 64 * 8 / 1e10 + 1e-5)}, 4.0)[""]
    assert decode.seconds(1.0, 8.0, 8.0, np.array([100.0, 1000.0]), 64.0).shape == (2,)


def test_writing_is_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from calc.time.device.profile import Profile, Provenance

    made = Provenance(source="a test", licence="none", made="2026-11-21")
    profile = Profile(name="cpu-one", device="One", kind="cpu", provenance=made)
    path = write_profile(profile, tmp_path)
    before = path.read_text()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_profile(profile.model_copy(update={"device": "Two"}), tmp_path)
    assert path.read_text() == before
    assert [each.name for each in path.parent.iterdir()] == ["cpu-one.json"]


def test_times_that_nothing_fits_are_said_and_replace_no_better_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a busy machine: what was measured is given, and what becomes of it is not."""
    whole = read_profile(ROOT / "results" / "profiles" / "cpu-intel-xeon-processor-2-cores.json")
    noisy = {name: fit.model_copy(update={"mape": 4.25}) for name, fit in whole.fits.items()}
    worse = {name: fit.model_copy(update={"mape": 5.0}) for name, fit in whole.fits.items()}
    path = tmp_path / "profiles" / f"{whole.name}.json"

    def measured(fits: dict[str, Fit]) -> Result:
        found = whole.model_copy(update={"fits": fits})
        monkeypatch.setattr("harness.profiling.profiler.measure_profile", lambda *_: found)
        return CliRunner().invoke(cli, ["profile", "--results", str(tmp_path)], standalone_mode=False)

    first = measured(worse)
    assert first.return_value == 1
    assert "is off by 500% on average" in first.stderr
    assert measured(noisy).return_value == 1
    assert read_profile(path).fits == noisy
    assert measured(dict(whole.fits)).return_value == 0
    last = measured(noisy)
    assert last.return_value == 1
    assert "fits better" in last.stderr
    assert read_profile(path).fits == whole.fits


@pytest.mark.parametrize(("error", "stays"), [(0.19, False), (0.21, True)])
def test_a_profile_twice_as_far_off_replaces_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: float, stays: bool
) -> None:
    """Though its errors are far from those that are called noise."""
    whole = read_profile(ROOT / "results" / "profiles" / "cpu-intel-xeon-processor-2-cores.json")
    there, new = (
        whole.model_copy(
            update={"fits": {name: fit.model_copy(update={"mape": each}) for name, fit in whole.fits.items()}}
        )
        for each in (0.1, error)
    )
    write_profile(there, tmp_path)
    monkeypatch.setattr("harness.profiling.profiler.measure_profile", lambda *_: new)
    done = CliRunner().invoke(cli, ["profile", "--results", str(tmp_path)], standalone_mode=False)
    assert done.return_value == int(stays)
    assert ("fits better (10.0% off on average, this one 21.0%) and stays" in done.stderr) is stays
    assert read_profile(tmp_path / "profiles" / f"{whole.name}.json").fits == (there if stays else new).fits


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_the_kernel_of_attention_is_named(dtype: str) -> None:
    """What PyTorch chooses on a CPU is its flash kernel; predictions find ratios of others to it by that name."""
    from harness.profiling.attention import SDPA, chosen

    assert chosen("cpu", dtype) == "sdpa_flash"
    assert set(SDPA.values()) <= set(KERNELS)


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(Refused, match="--dtypes"):
        measure_profile("cpu", ["fp64"], 1.0)


def test_too_little_time_is_refused() -> None:
    with pytest.raises(Refused, match="--time"):
        profile_of(Samples(), environment(), {})


@pytest.mark.slow
def test_an_interrupt_leaves_no_file(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "harness",
        "profile",
        "--device",
        "cpu",
        "--results",
        str(tmp_path),
        "--time",
        "60",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "left at most" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert "error: interrupted" in process.stderr.read()
    assert not list(tmp_path.rglob("*"))


def test_a_profile_of_other_threads_is_named() -> None:
    here = environment()
    told = {"cpu": here.cpu, "threads": here.threads, "torch": here.torch}
    made = Provenance(source="a test", licence="none", made="2026-11-21")
    same = Profile(name="box", device="A box", kind="cpu", environment=told, provenance=made)
    assert measured_otherwise(same, here) == ""
    other = same.model_copy(update={"environment": told | {"threads": here.threads + 6}})
    assert f"threads {here.threads + 6} there, {here.threads} here" in measured_otherwise(other, here)


def test_what_a_gpu_waits_for_its_host_is_found_again() -> None:
    """From the time of a pass and of a step that are made of launches alone, as those of a small model are."""
    shipped = shipped_profile("h200")
    assert shipped is not None
    truth = Launch(eager=1.2e-5, module=4e-5, backward=1.7e-5, graph=0.0, step=4e-4)
    known = shipped.model_copy(update={"launch": truth})
    words: dict[str, Any] = {"batch": 1, "seq": 64, "dtype": "fp32", "execution": "eager"}
    ahead, whole = (predict(small_model(), known, phase=phase, **words) for phase in ("forward", "training"))
    forward, training = (sum(row.dispatch for row in found.kernels) for found in (ahead, whole))
    found = of_gpu(shipped, Launch(eager=1.2e-5, backward=9.0, graph=0.0, step=4e-4), forward, training + truth.step)
    assert (found.module, found.backward) == pytest.approx((truth.module, truth.backward))
    assert (found.eager, found.step, found.graph) == (truth.eager, truth.step, truth.graph)


def test_heads_are_leaves_as_a_projection_lays_them() -> None:
    """A view would bind going back to the stream that made it, which no capture of a GPU survives."""
    heads = Pool("cpu", torch.float32, 2**12).heads(2, 5, 3, 4)
    assert heads.shape == (2, 3, 5, 4)
    assert heads.stride() == (60, 4, 12, 1)
    assert heads.is_leaf
    assert heads.requires_grad
