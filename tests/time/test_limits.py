"""Intervals stop where a device does, and what is counted for MFU runs."""

from __future__ import annotations

from typing import Any

import pytest

import calc
from calc.architectures import from_config
from calc.spec.catalogue import device_names, load_device
from calc.time import predict
from tests import reference


@pytest.mark.parametrize("seq", [2048, 32768, 131072])
@pytest.mark.parametrize("phase", ["prefill", "training", "forward"])
@pytest.mark.parametrize("model", ["llama-3-8b", "qwen3-30b-a3b", "gemma-2-9b"])
def test_no_mfu_is_above_one(model: str, phase: Any, seq: int) -> None:
    found = predict(calc.load_model(model), "h100-sxm", phase=phase, seq=seq, batch=2, execution="compiled")
    assert found.mfu_between is not None
    assert 0 < found.mfu_between[0] < found.mfu_between[1] <= 1 + 1e-12


def test_the_fast_end_of_a_sparse_model_stops_at_the_peak() -> None:
    spec = from_config(reference.config("Qwen3-Coder-480B-A35B"))
    for seq in (2048, 8192, 65536):
        for phase in ("prefill", "forward"):
            found = predict(spec, "a100-sxm-80gb", phase=phase, seq=seq, batch=4, tp=8, execution="compiled")
            assert found.mfu_between is not None
            assert found.mfu_between[1] <= 1 + 1e-12


@pytest.mark.parametrize("gpu", ["h100-sxm", "l4", "h200", "a100-sxm-80gb"])
@pytest.mark.parametrize("batch", [1, 64])
def test_weights_and_keys_are_not_read_faster_than_memory_gives_them(gpu: str, batch: int) -> None:
    found = predict(calc.load_model("llama-3-8b"), gpu, phase="decode", batch=batch, context=8000, execution="graph")
    bandwidth = load_device(gpu).bandwidth.value
    read = 2 * (8030261248 - 128256 * 4096) + batch * 8000 * 2**17
    assert found.interval.low >= read / bandwidth
    assert found.interval.low <= found.seconds <= found.interval.high


def test_pairs_that_never_run_are_left_out_of_long_prompts_alone() -> None:
    """PaLM counts 6 a parameter and 12 layers * width * length a token; a causal mask hides half of the latter."""
    spec = calc.load_model("llama-3-8b")
    short, long = (predict(spec, "h100-sxm", phase="training", seq=seq) for seq in (2048, 131072))
    assert (str(short.mfu_counting), str(long.mfu_counting)) == ("palm, all pairs", "palm, causal pairs")
    needed = 131072 * (6 * 8030261248 + 12 * 32 * 4096 * 131072 / 2)
    assert long.mfu is not None
    assert long.mfu == pytest.approx(needed / (long.seconds * 989.4e12), rel=0.02)


@pytest.mark.parametrize("gpu", device_names())
def test_no_device_is_far_from_what_its_datasheet_allows(gpu: str) -> None:
    """A token reads all weights, a prompt multiplies with them: no device takes many times as long as that."""
    device, spec = load_device(gpu), calc.load_model("llama-3-8b")
    dtype = next(each for each in ("bf16", "fp16", "fp32") if each in device.known_peaks)
    params = 8030261248 - 128256 * 4096  # the table of words is looked up in, not multiplied with
    size = 4 if dtype == "fp32" else 2
    token = predict(spec, gpu, phase="decode", context=500, dtype=dtype, execution="graph")
    assert 1 < token.seconds / (size * params / device.bandwidth.value) < 3
    prompt = predict(spec, gpu, phase="prefill", seq=4096, dtype=dtype, execution="graph")
    assert 1 < prompt.seconds / (2 * 4096 * (params - 128256 * 4096) / device.peak(dtype)) < 6
