"""Time of attention over prompts and of single new tokens: what holds for any constants, and recovery of known ones."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc.spec.catalogue import load_device
from calc.time.models.decoding import DecodeModel
from calc.time.models.flash import AttentionModel
from calc.time.models.learned import Learned
from calc.time.models.limits import Limits, limits_of
from calc.time.models.questions import columns
from calc.time.models.smooth import SmoothAttention

H100 = limits_of(load_device("h100-sxm"), "bf16")
CPU = Limits(peak=1e12, bandwidth=4e11, itemsize=4.0)
PREFILL, DECODE = AttentionModel.prior(H100), DecodeModel.prior(H100)

lengths = st.integers(1, 2**17)
batches = st.integers(1, 512)
heads = st.tuples(st.sampled_from([1, 2, 8, 12]), st.sampled_from([1, 3, 4, 16])).map(
    lambda two: (two[0] * two[1], two[0])
)
widths = st.sampled_from([64, 96, 128, 256])
windows = st.sampled_from([None, 128, 4096])


def prompts(n: int, seed: int = 0) -> dict[str, Any]:
    """`n` launches of all sizes that tables have."""
    rng = np.random.default_rng(seed)
    kv_heads = 2.0 ** rng.integers(0, 4, n)
    seq, width = np.round(2.0 ** rng.uniform(4, 13, n)), 2.0 ** rng.integers(6, 9, n)
    return {
        "batch": 2.0 ** rng.integers(0, 6, n),
        "heads": kv_heads * 2.0 ** rng.integers(0, 4, n),
        "kv_heads": kv_heads,
        "seq": seq,
        "keys": seq,
        "d_head": width,
        "d_value": width,
        "causal": rng.integers(0, 2, n).astype(float),
        "window": rng.choice([0.0, 512.0], n),
    }


def caches(n: int, seed: int = 0) -> dict[str, Any]:
    """`n` launches of decoding."""
    shape = prompts(n, seed)
    context = shape["keys"] * 8
    return {name: shape[name] for name in ("batch", "heads", "kv_heads", "d_head", "d_value", "window")} | {
        "context": context,
        "latent": np.zeros(n),
    }


def noisy(model: Learned, shape: dict[str, Any], seed: int = 1) -> Any:
    """What a device of these constants would be measured at, within 2 %."""
    noise = np.random.default_rng(seed).normal(0, 0.02, len(shape["batch"]))
    return model.predicted(shape) * np.exp(noise)


def mape(model: Learned, shape: dict[str, Any], seconds: Any) -> float:
    return float(np.abs(model.predicted(shape) / seconds - 1).mean())


def part_of(shape: dict[str, Any], rows: slice) -> dict[str, Any]:
    return {name: column[rows] for name, column in shape.items()}


@given(batches, heads, lengths, widths, windows, st.booleans())
def test_prompts_take_time_within_physics(batch, heads: tuple[int, int], seq, d_head, window, causal):
    found = PREFILL.seconds(batch, *heads, seq, d_head=d_head, window=window, causal=causal)
    seen = seq if window is None else min(window, seq)
    pairs = seen * (seen + 1) / 2 + (seq - seen) * seen if causal else seq * seen
    assert 1e-6 < found < 1e6
    assert found >= 4 * batch * heads[0] * d_head * pairs / H100.peak


@given(batches, heads, lengths, widths, windows)
def test_new_tokens_take_time_within_physics(batch, heads: tuple[int, int], context, d_head, window):
    found = DECODE.seconds(batch, *heads, context, d_head, window)
    cache = 2 * 2 * batch * heads[1] * min(context, window or context) * d_head
    assert 1e-6 < found < 1e6
    assert found >= (cache - (H100.l2 or 0)) / H100.bandwidth


@given(batches, heads, st.integers(1, 2**15), widths, windows)
def test_twice_the_tokens_are_never_faster(batch, heads: tuple[int, int], seq, d_head, window):
    one = [PREFILL.seconds(batch, *heads, n, d_head=d_head, window=window) for n in (seq, 2 * seq)]
    two = [DECODE.seconds(batch, *heads, n, d_head, window) for n in (seq, 2 * seq)]
    assert one[1] >= 0.97 * one[0]
    assert two[1] >= 0.97 * two[0]


@given(batches, heads, st.integers(1, 2**12), st.integers(0, 2**14), widths)
def test_more_cached_keys_are_never_faster(batch, heads: tuple[int, int], seq, cached, d_head):
    times = [PREFILL.seconds(batch, *heads, seq, seq + more, d_head) for more in (cached, cached + 1, 2 * cached + 1)]
    assert times[1] >= 0.97 * times[0]
    assert times[2] >= 0.97 * times[1]


def test_columns_say_what_numbers_say():
    batch, seq = np.array([1, 4, 64]), np.array([16384, 1000, 7])
    found = PREFILL.seconds(batch, 32, 8, seq, d_head=128, window=np.array([0, 128, 0]))
    single = [
        PREFILL.seconds(int(b), 32, 8, int(s), d_head=128, window=w)
        for b, s, w in zip(batch, seq, (None, 128, 0), strict=True)
    ]
    assert found.tolist() == single
    assert isinstance(single[0], float)
    decoded = DECODE.seconds(batch, 32, 8, seq)
    assert decoded.tolist() == [DECODE.seconds(int(b), 32, 8, int(s)) for b, s in zip(batch, seq, strict=True)]


def test_masks_leave_work_out():
    full, causal = (PREFILL.seconds(4, 32, 8, 16384, causal=mask) for mask in (False, True))
    windowed = PREFILL.seconds(4, 32, 8, 16384, window=1024)
    assert full / causal == pytest.approx(2, rel=0.1)
    assert causal / windowed == pytest.approx(8192 / 1024, rel=0.35)
    # With one new token after many, or with no mask, the mask does not matter.
    assert PREFILL.seconds(4, 32, 8, 1, 4096) == pytest.approx(PREFILL.seconds(4, 32, 8, 1, 4096, causal=False))


def test_backward_is_two_and_a_half_forwards_at_a_lower_rate():
    back = PREFILL.backward()
    ratio = back.seconds(8, 32, 32, 8192) / PREFILL.seconds(8, 32, 32, 8192)
    assert ratio == pytest.approx(2.5 / PREFILL.backward_efficiency, rel=0.05)
    assert back.spread is None


def test_grouped_heads_read_less_of_a_cache():
    times = [DECODE.seconds(64, 32, kv_heads, 8192) for kv_heads in (32, 8, 1)]
    assert times[0] > 3.5 * times[1] > 3.5 * 3.5 * times[2]


def test_latent_values_are_not_read_again():
    absorbed = DECODE.seconds(128, 128, 1, 8192, 576, d_value=512, latent=True)
    cache, products = 128 * 8192 * 576 * 2, 2 * 128 * 128 * 8192 * (576 + 512)
    # FlashMLA's README: up to 3.0 TB/s, and 660 TFLOP/s, of an H800; both bound this shape.
    assert max(cache / 3.0e12, products / 660e12) < absorbed < 2 * max(cache / 3.0e12, products / 660e12)
    assert absorbed < DECODE.seconds(128, 128, 1, 8192, 576, d_value=512)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "made"), [(AttentionModel, prompts), (DecodeModel, caches)])
def test_fitting_finds_constants_again(kind: Any, made: Any):
    shape = made(400)
    true = kind.prior(H100)
    true = true.model_copy(update={"constants": true.constants | {"launch": 2.6, "bandwidth": 1.0, "cache": -0.8}})
    seconds = noisy(true, shape)
    model = kind.fit(part_of(shape, slice(0, 200)), seconds[:200], H100, "known")
    assert mape(kind.prior(H100), part_of(shape, slice(200, None)), seconds[200:]) > 0.1
    assert mape(model, part_of(shape, slice(200, None)), seconds[200:]) < 0.05
    assert model.points == 200
    assert model.spread is not None
    assert model.spread.mape < 0.05
    low, high = model.interval(0.9)
    assert 0.85 < low < 1 < high < 1.15


@pytest.mark.parametrize(("kind", "made"), [(AttentionModel, prompts), (DecodeModel, caches)])
def test_a_device_without_known_cores_is_fitted_too(kind: Any, made: Any):
    shape = made(160)
    width = shape["batch"] * shape["heads"] * (shape["d_head"] + shape["d_value"])
    work = width * shape.get("seq", 1.0) * shape["keys" if "keys" in shape else "context"]
    shape |= {"window": np.zeros(160)} | ({"causal": np.zeros(160)} if "causal" in shape else {})
    seconds = 2e-5 + work * 2 / 2e11
    model = kind.fit(part_of(shape, slice(0, 80)), seconds[:80], CPU, "torch")
    assert mape(model, part_of(shape, slice(80, None)), seconds[80:]) < 0.08


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "made"), [(AttentionModel, prompts), (DecodeModel, caches)])
def test_a_model_survives_json_and_fits_the_same_again(kind: Any, made: Any):
    shape = made(60)
    seconds = noisy(kind.prior(H100), shape)
    one, two = (kind.fit(shape, seconds, H100, "again", seed=3) for _ in range(2))
    assert one == two
    read = kind.model_validate(json.loads(one.model_dump_json()), strict=False)
    assert read == one
    assert (read.predicted(shape) == one.predicted(shape)).all()
    assert len(one.model_dump_json()) < 60_000


def test_moving_scales_what_bounds():
    h200 = limits_of(load_device("h200"), "bf16")
    there = DECODE.moved(H100, h200)
    faster = DECODE.seconds(64, 32, 8, 32768) / there.seconds(64, 32, 8, 32768)
    assert 1.3 < faster <= 4.8 / 3.35
    long, same = PREFILL.seconds(1, 32, 8, 32768), PREFILL.moved(H100, h200).seconds(1, 32, 8, 32768)
    assert long == pytest.approx(same, rel=0.02)
    assert DECODE.moved(H100, H100).seconds(8, 32, 8, 999) == DECODE.seconds(8, 32, 8, 999)


@pytest.mark.slow
def test_moving_keeps_the_residual_valid():
    shape = caches(120)
    model = DecodeModel.fit(shape, noisy(DECODE, shape), H100, "known")
    h200 = limits_of(load_device("h200"), "bf16")
    moved = model.moved(H100, h200)
    assert mape(moved, shape, DECODE.moved(H100, h200).predicted(shape)) < 0.05


@settings(max_examples=20)
@given(st.integers(2, 40))
def test_columns_are_of_one_length(n):
    shape, single = columns(batch=np.ones(n), heads=8)
    assert not single
    assert {len(column) for column in shape.values()} == {n}


@pytest.mark.parametrize(
    ("seq", "keys", "window"), [(1, 1, 0), (7, 7, 0), (7, 7, 3), (7, 7, 9), (4, 11, 0), (4, 11, 5)]
)
def test_a_curve_s_work_is_of_the_pairs_that_the_mask_keeps(seq: int, keys: int, window: int) -> None:
    """Counted one by one: early tokens see less than a window."""
    sizes = {"batch": 2, "heads": 4, "kv_heads": 2, "seq": seq, "keys": keys, "d_head": 8, "d_value": 8, "causal": 1}
    shape = {name: np.array([size], dtype=float) for name, size in (sizes | {"window": window}).items()}
    pairs = sum(1 for q in range(keys - seq, keys) for k in range(q + 1) if not window or q - k < window)
    assert SmoothAttention.work(shape, 2.0).flops == pytest.approx([2 * 2 * 4 * pairs * 16])
