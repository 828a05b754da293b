"""What a device's speed rests on: a profile, a relative's, a datasheet; and what fills the gaps."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import calc
from calc import Refused
from calc.spec import Shorthand
from calc.spec.catalogue import load_device
from calc.time import kernel_seconds, matmul, pass_over, predict, read_profile, speed_of
from calc.time.device.profile import Launch, Profile, Provenance, shipped_devices, shipped_profile
from calc.time.device.relatives import alike, clock, cycle, moved, published_clock, relatives_of
from calc.time.device.speed_of import on_stack
from calc.time.models.flash import AttentionModel
from calc.time.models.gemm import GemmModel
from calc.time.models.learned import CARRIED
from calc.time.models.limits import Limits, limits_of
from calc.time.models.passes import PassModel
from calc.time.models.questions import columns
from tests.cli.test_commands import Run, run

__all__ = ["run"]

SMALL = Shorthand(d_model=64, n_layers=2, n_heads=4, vocab_size=500, max_seq_len=128).expand()


def profile(**more: object) -> Profile:
    """Of a CPU: products by prior constants, passes at 10 GB/s after 10 us."""
    limits = Limits(peak=1e11, bandwidth=1e10, itemsize=4)
    knots = tuple((size, 1e-5 + size / 1e10) for size in (1e3, 1e5, 1e7, 1e9))
    known = {
        "name": "box",
        "device": "A box",
        "kind": "cpu",
        "gemm": {"fp32": GemmModel.prior(limits)},
        "attention": {"fp32": AttentionModel.prior(limits)},
        "attention_backward": {"fp32": AttentionModel.prior(limits).backward()},
        "passes": {"fp32": {"copy": PassModel(knots=knots), "layernorm": PassModel(knots=((1.0, 1.0),))}},
        "launch": Launch(eager=1e-4, backward=2e-4, step=0.5),
        "provenance": Provenance(source="a test", licence="none", made="2026-11-21"),
    }
    return Profile(**(known | more))  # type: ignore[arg-type]


def test_a_profile_answers_by_function_and_falls_back_on_copies() -> None:
    norm = kernel_seconds(profile(), pass_over("layernorm", 1e6, "fp32"))
    assert norm.source == "measured"
    assert norm.seconds == pytest.approx(8e6)
    gelu = kernel_seconds(profile(), pass_over("gelu", 1e6, "fp32"))
    assert gelu.source == "prior"
    assert gelu.seconds == pytest.approx(1e-5 + 8e6 / 1e10, rel=0.1)


def test_a_cpu_adds_what_each_call_needs_beside_itself_and_once_a_step() -> None:
    bare, whole = profile(launch=Launch(eager=0.0, backward=0.0)), profile()
    options = {"phase": "training", "dtype": "fp32", "seq": 32, "execution": "eager"}
    less, more = (predict(SMALL, each, **options) for each in (bare, whole))  # type: ignore[arg-type]
    calls = {"backward": 0.0, "other": 0.0}
    for row in less.kernels:
        calls["backward" if row.kernel.direction == "backward" else "other"] += row.kernel.calls
    expected = 0.5 + 1e-4 * calls["other"] + 2e-4 * calls["backward"]
    assert more.seconds - less.seconds == pytest.approx(expected, rel=1e-6)
    assert more.by_component["host"] == 0.5


def test_a_profile_without_a_datasheet_has_the_peak_that_was_measured() -> None:
    found = predict(SMALL, profile(), dtype="fp32", seq=64)
    assert found.peak_source == "largest measured product in fp32"
    side = 8192
    assert found.peak == pytest.approx(
        2 * side**3 / kernel_seconds(profile(), matmul(side, side, side, "fp32")).seconds
    )
    with pytest.raises(Refused, match="dtype"):
        predict(SMALL, profile(), dtype="bf16", seq=64)


def test_a_profile_in_a_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "box.json"
    path.write_text(profile().model_dump_json())
    assert read_profile(path) == profile()
    status, out, _ = run("predict", "gpt2", "--profile", str(path), "--dtype", "fp32", "--seq", "64", "--json")
    record = json.loads(out)
    assert status == 0
    assert record["device"] == "A box"
    assert record["rests_on"] == "profile"


def test_a_shipped_profile_stands_in_for_its_architecture() -> None:
    assert shipped_profile("h100-sxm") is not None
    own, relative = speed_of("h100-sxm"), speed_of("h20")
    assert (own.basis, relative.basis, speed_of("mi300x").basis) == ("profile", "relative", "datasheet")
    spec = calc.load_model("llama-3-8b")
    first, second = (predict(spec, each, phase="decode", context=2048, execution="graph") for each in (own, relative))
    # 4.0 against 3.35 TB/s, but 148 against 990 TFLOP/s; products of one row are padded to tiles of 16.
    assert 0.7 < first.seconds / second.seconds < 1.2
    for found in (first, second):
        assert found.interval.low < found.seconds < found.interval.high
    near = speed_of(next(iter(relatives_of(load_device("h20"), shipped_devices()))))
    one, other = (kernel_seconds(each, matmul(4096, 4096, 4096, "bf16")) for each in (near, speed_of("h20")))
    assert other.high / other.seconds > one.high / one.seconds
    assert any("same architecture" in note for note in second.notes)


def test_gaps_of_a_profile_are_filled_from_the_datasheet_and_named() -> None:
    found = predict(calc.load_model("llama-3-8b"), "h100-sxm", phase="decode", dtype="fp8", execution="graph")
    missing = predict(calc.load_model("llama-3-8b"), "h100-sxm", phase="decode", dtype="fp16", execution="graph")
    assert any("rests on priors" in note and "matmul" in note for note in missing.notes)
    assert not any("matmul" in note for note in found.notes)
    quantized = predict(calc.load_model("llama-3-8b"), "h100-sxm", phase="decode", dtype="int4:g128", execution="graph")
    plain = predict(calc.load_model("llama-3-8b"), "h100-sxm", phase="decode", execution="graph")
    assert quantized.seconds < found.seconds < plain.seconds


def test_a_tpu_has_no_waves_of_tiles() -> None:
    """PaLM 540B reached 57.8 % of a TPU v4's peak in whole steps (arXiv:2204.02311); its products alone, more."""
    speed = speed_of("tpu-v4")
    found = kernel_seconds(speed, matmul(16384, 18432, 18432, "bf16"))
    reached = 2 * 16384 * 18432 * 18432 / found.seconds / speed.peak("bf16")
    assert 0.578 < reached < 1
    notes = predict(SMALL, speed, seq=64).notes
    assert any("TPUs" in note for note in notes)


def test_a_relative_answers_with_the_mean_of_its_relatives_moved_models() -> None:
    there = load_device("h20")
    counted = relatives_of(there, shipped_devices())
    assert list(counted) == ["h200", "h100-sxm"]
    assert counted["h200"] == 1 > counted["h100-sxm"] > 0
    for table, sizes in (("gemm", (256, 4096, 4096)), ("decode", (8, 32, 8, 4096))):
        models = [moved(getattr(speed_of(name), table)["bf16"], "bf16", load_device(name), there) for name in counted]
        logs = np.log([model.seconds(*sizes) for model in models])
        assert all(model.limits.bandwidth == pytest.approx(4e12, rel=0.01) for model in models)
        found = getattr(speed_of("h20"), table)["bf16"]
        expected = np.exp(np.average(logs, weights=list(counted.values())))
        assert found.seconds(*sizes) == pytest.approx(expected)
        assert isinstance(found.seconds(*sizes), float)
        columns = [np.full(3, float(size)) for size in sizes]
        assert found.seconds(*columns) == pytest.approx(np.full(3, expected))
        ends = [model.interval(0.9) for model in models]
        low, high = found.interval(0.9)
        assert min(end[0] for end in ends) <= low <= max(end[0] for end in ends) < 1
        assert 1 < min(end[1] for end in ends) <= high <= max(end[1] for end in ends)


def test_cores_that_were_cut_are_fed_as_before_and_run_faster_where_watts_are_to_spare() -> None:
    h200, h20, l40s, l4 = (load_device(name) for name in ("h200", "h20", "l40s", "l4"))
    here, there = (limits_of(device, "bf16").peak for device in (h200, h20))
    assert clock(h200, here, h20, there) == pytest.approx((500 / 148 / (700 / 989)) ** (1 / 3), rel=0.01)
    assert clock(h200, here, h200, here) == 1
    assert clock(l40s, 362e12, l4, 121e12) < 1
    assert alike(h200, h20)
    assert not alike(load_device("a100-sxm-80gb"), load_device("a10"))
    assert not alike(h200, l40s)
    # Long products and prompts reach more of an H20's peak than of an H200's, and none more than the peak.
    for sizes, flops, table in (
        ((8192, 8192, 8192), 2 * 8192**3, "gemm"),
        ((1, 32, 8, 16384), 2 * 16384 * 16385 * 32 * 128, "attention"),
    ):
        reached = [flops / getattr(speed_of(name), table)["bf16"].seconds(*sizes) for name in ("h200", "h20")]
        assert reached[0] / here < 0.82 < reached[1] / there < 1


def test_a_cache_of_unknown_size_is_taken_to_be_the_relatives() -> None:
    assert load_device("b300").l2 is None
    origin, device = load_device("b200"), load_device("b300")
    model = speed_of("b200").gemm["bf16"]
    assert moved(model, "bf16", origin, device).limits.l2 == limits_of(origin, "bf16").l2
    # Both have the same cores and memory, and one a tenth more watts.
    sizes = (16, 4096, 4096)
    assert speed_of("b300").gemm["bf16"].seconds(*sizes) == pytest.approx(model.seconds(*sizes), rel=0.05)


def test_a_cycle_is_that_of_published_clocks() -> None:
    """GHz that NVIDIA prints as boost clocks: A100 1.41, A10 1.695, L40S 2.52, H100 SXM 1.98."""
    ghz = {"a100-sxm-80gb": 1.41, "a10": 1.695, "l40s": 2.52, "h100-sxm": 1.98}
    for name, printed in ghz.items():
        assert published_clock(load_device(name)) == pytest.approx(printed * 1e9, rel=0.005)
    a100, a10 = load_device("a100-sxm-80gb"), load_device("a10")
    assert cycle(a100, a10) == pytest.approx(1.41 / 1.695, rel=0.005)
    assert cycle(load_device("h200"), load_device("h20")) == 1  # of one design


def test_starts_caches_and_what_was_learned_move_to_other_cores() -> None:
    """From an A100 to an A10: starts are as many cycles; a core with less bandwidth gains more by the shared cache; a
    part of what libraries do beside physics is theirs there."""
    a100, a10 = load_device("a100-sxm-80gb"), load_device("a10")
    here = speed_of("a100-sxm-80gb").gemm["bf16"]
    there = moved(here, "bf16", a100, a10)
    assert there.constants["launch"] - here.constants["launch"] == pytest.approx(math.log(cycle(a100, a10)))
    assert there.constants["cache"] < 0 < here.constants["cache"]
    features = here.physics(columns(m=64, n=4096, k=4096, batch=1)[0]).features
    learned = (model.residual.log_ratio(features)[0] for model in (there, here))
    assert next(learned) == pytest.approx(CARRIED * next(learned), rel=1e-4)


def test_relatives_are_of_the_same_family() -> None:
    every = shipped_devices()
    names = ("b300", "gb300", "l4", "rtx-5090", "mi300x")
    found = [list(relatives_of(load_device(name), every)) for name in names]
    assert found == [["b200", "gb200"], ["gb200", "b200"], ["l40s"], ["rtx-pro-6000"], []]


def test_a_stack_that_was_not_measured_is_that_of_the_others() -> None:
    ours, theirs = on_stack("b200", "vllm"), on_stack("b200", "trtllm")
    assert ours.gemm["bf16"] != theirs.gemm["bf16"]
    # In blocks of fp8 vLLM's table holds 160 us of launching and more.
    assert ours.gemm["fp8_block"] == theirs.gemm["fp8_block"]
    assert "bf16.latent" not in shipped_profile("b200").decode  # type: ignore[union-attr]
    assert ours.decode["bf16.latent"] == theirs.decode["bf16.latent"]
    with pytest.raises(Refused, match="stack: expected one of vllm, trtllm, sglang"):
        on_stack("b200", "mine")
