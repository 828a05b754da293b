"""What a rank reads where key-value heads are fewer than tensor-parallel ranks: each head stands on several."""

from __future__ import annotations

from typing import Any

import pytest

import calc
from calc.time import predict, roofline
from calc.time.step.roofline import Point

QWEN = calc.load_model("qwen3-235b-a22b")
"""64 query heads, 4 of keys and values, of 128, in 94 layers."""


def _core(tp: int, **words: int) -> Point:
    (core,) = _cores("qwen3-235b-a22b", tp, **words)
    return core


def _cores(model: str, tp: int, **words: int) -> list[Point]:
    """The kernels for attention of every kind of layer."""
    found = predict(calc.load_model(model), "h200", phase="decode", tp=tp, **words)
    return [point for point in roofline(found) if point.function == "attention"]


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_bytes_of_a_core_are_its_heads_queries_and_keys(tp: int) -> None:
    batch, context, heads, kv_heads, d_head, layers = 16, 8192, 64, 4, 128, 94
    keys = 2 * batch * max(kv_heads / tp, 1) * (context + 1) * d_head * 2
    queries = 2 * batch * heads / tp * d_head * 2
    # The new token's keys are read by the kernel and written to the cache.
    written = 2 * batch * max(kv_heads / tp, 1) * d_head * 2
    core = _core(tp, batch=batch, context=context)
    assert core.bytes == pytest.approx(layers * (keys + queries + written), rel=1e-9)
    assert core.flops == pytest.approx(layers * 4 * batch * heads / tp * (context + 1) * d_head)


def test_intensity_is_queries_a_key_that_a_rank_has() -> None:
    """Two FLOPs of scores and two of values for every query head that reads a key and a value of two bytes each."""
    found = [_core(tp, batch=16, context=8192).intensity for tp in (1, 2, 4, 8)]
    assert found == pytest.approx([16, 16, 16, 8], rel=0.01)


def test_latents_stand_whole_on_every_rank() -> None:
    alone, eight = (_cores("deepseek-v3", tp, batch=16, context=8192) for tp in (1, 8))
    cached = 61 * 16 * 8193 * (512 + 64) * 2
    assert cached <= sum(core.bytes for core in eight) < 1.02 * cached
    assert [core.intensity for core in eight] == pytest.approx([core.intensity / 8 for core in alone], rel=0.05)


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
@pytest.mark.parametrize("batch", [1, 16])
def test_no_rate_is_above_that_of_the_memory(tp: int, batch: int) -> None:
    """Not where the host is waited for either, whose time is shared among kernels by their launches."""
    found = predict(QWEN, "h200", phase="decode", tp=tp, batch=batch, context=8192)
    assert max(point.bandwidth for point in roofline(found)) < 4.8e12


@pytest.mark.parametrize(("model", "seq"), [("mistral-7b", 32768), ("ministral-8b", 131072), ("llama-3-8b", 32768)])
def test_ranks_of_a_context_share_the_time_of_attention(model: str, seq: int) -> None:
    """With a window as without: a rank has an eighth of the pairs, and takes about an eighth of the time, below the
    peak."""
    spec = calc.load_model(model)
    words: dict[str, Any] = {"phase": "training", "seq": seq, "cluster": "dgx-h100", "gpus": 8, "recipe": "bf16-master"}
    times = {}
    for cp in (1, 8):
        found = predict(spec, "h100-sxm", cp=cp, **words)
        rows = [row for row in found.kernels if row.kernel.function == "attention"]
        times[cp] = sum(row.seconds for row in rows)
        flops = sum(row.kernel.flops * row.kernel.calls for row in rows)
        assert flops / times[cp] < 989e12
    assert times[8] * 8 == pytest.approx(times[1], rel=0.1)
