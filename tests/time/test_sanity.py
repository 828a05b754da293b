"""Fitted models of every shipped profile: never above the peak, never faster than memory with the cache that can hold
the operands, without a step where their data end, and growing with work as far as physics goes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc.spec.catalogue import device_names, load_device
from calc.time.device.profile import STACKS
from calc.time.device.speed_of import speed_of
from calc.time.models.limits import Limits, limits_named
from calc.time.models.questions import columns
from tests.time.profile_tables import SYSTEMS, profile

FIELDS = ("gemm", "attention", "decode", "experts")
Sizes = dict[str, float]


@cache
def models(field: str) -> list[tuple[str, Any]]:
    """Every shipped model of a field, by the name of its profile and itself."""
    return [
        (f"{system} {stack} {name}", model)
        for system in SYSTEMS
        for stack in STACKS
        for name, model in getattr(profile(system, stack), field).items()
    ]


powers = st.integers(0, 13).map(lambda exponent: 2.0**exponent)
odd = st.integers(1, 20_000).map(float)
sizes = powers | odd
WIDTHS = ((4096.0, 1536.0, 128.0), (2560.0, 6912.0, 8.0))
"""Of the stream and an expert, and how many experts."""
heads = st.sampled_from([(1, 1), (8, 1), (16, 16), (40, 8), (64, 1), (128, 8)])


def products(m: float, n: float, k: float) -> Sizes:
    return {"m": m, "n": n, "k": k, "batch": 1.0}


def tokens(batch: float, group: tuple[int, int], context: float) -> Sizes:
    own = {"batch": batch, "heads": group[0], "kv_heads": group[1], "context": context, "window": 0.0}
    return own | {"d_head": 128.0, "d_value": 128.0, "latent": 0.0}


def prompts(batch: float, group: tuple[int, int], seq: float) -> Sizes:
    own = {"batch": batch, "heads": group[0], "kv_heads": group[1], "seq": seq, "keys": seq, "window": 0.0}
    return own | {"d_head": 128.0, "d_value": 128.0, "causal": 1.0}


def experts(visits: float, top_k: int, skew: float, widths: tuple[float, float, float] = WIDTHS[0]) -> Sizes:
    hidden, inter, count = widths
    own = {"tokens": visits, "hidden": hidden, "inter": inter, "experts": count, "top_k": top_k, "skew": skew}
    return own | {"tp": 1.0, "ep": 1.0, "gated": 1.0}


SHAPES = {
    "gemm": st.builds(products, sizes, sizes, sizes),
    "attention": st.builds(prompts, st.sampled_from([1.0, 3.0, 32.0]), heads, sizes),
    "decode": st.builds(tokens, st.sampled_from([1.0, 7.0, 256.0]), heads, sizes),
    "experts": st.builds(
        experts, sizes, st.sampled_from([1, 2, 8]), st.sampled_from([0.0, 1.01, 1.2]), st.sampled_from(WIDTHS)
    ),
}
GROWING = {"gemm": ("m", "n", "k"), "attention": ("batch",), "decode": ("batch", "context"), "experts": ("tokens",)}


def work(field: str, limits: Limits, shape: Sizes) -> tuple[float, float]:
    """FLOPs that must be computed, and bytes that must be moved, counted here and not by the model."""
    if field == "gemm":
        m, n, k = shape["m"], shape["n"], shape["k"]
        size = m * k * limits.itemsize + n * k * limits.weight_size + m * n * limits.result_size
        return 2 * m * n * k, size
    if field == "decode":
        keys = shape["batch"] * shape["context"]
        return 2 * keys * shape["heads"] * 256, keys * shape["kv_heads"] * 256 * limits.weight_size
    if field == "attention":
        pairs = shape["seq"] * (shape["seq"] + 1) / 2
        operands = shape["heads"] * limits.itemsize + shape["kv_heads"] * limits.weight_size
        return 2 * shape["batch"] * shape["heads"] * pairs * 256, shape["batch"] * shape["seq"] * 256 * operands
    # Every reached expert's matrices; which are reached under skew is a matter of chance, but at least one is.
    reached = min(shape["experts"], shape["tokens"] * shape["top_k"]) if shape["skew"] == 0 else 1
    flops = 6 * shape["hidden"] * shape["inter"] * shape["tokens"] * shape["top_k"]
    return flops, 3 * reached * shape["hidden"] * shape["inter"] * limits.weight_size


@pytest.mark.parametrize("field", FIELDS)
@given(data=st.data())
@settings(deadline=None, max_examples=15)
def test_nothing_is_faster_than_the_device(field: str, data: st.DataObject) -> None:
    shape = data.draw(SHAPES[field])
    column, _ = columns(**shape)
    for name, model in models(field):
        seconds = float(model.predicted(column)[0])
        check(name, seconds, model.limits, work(field, model.limits, shape))


def check(name: str, seconds: float, limits: Limits, least: tuple[float, float]) -> None:
    flops, moved = least
    assert np.isfinite(seconds), name
    assert seconds >= flops / limits.peak * (1 - 1e-9), name
    assert seconds >= (moved - (limits.l2 or np.inf)) / limits.bandwidth * (1 - 1e-9), name
    assert seconds > 5e-7, name


@cache
def relatives(field: str) -> list[tuple[str, Any, Limits]]:
    """Every model that stands in for a device's own, by the names of both, and what its datasheet says."""
    speeds = ((name, speed_of(name)) for name in device_names())
    return [
        (f"{name} {key}", model, limits_named(load_device(name), key.partition("@")[0]))
        for name, speed in speeds
        if speed.basis == "relative"
        for key, model in getattr(speed, field).items()
    ]


@pytest.mark.parametrize("field", FIELDS)
@given(data=st.data())
@settings(deadline=None, max_examples=10)
def test_no_relative_is_faster_than_its_datasheet(field: str, data: st.DataObject) -> None:
    shape = data.draw(SHAPES[field])
    column, _ = columns(**shape)
    for name, model, limits in relatives(field):
        check(name, float(model.predicted(column)[0]), limits, work(field, limits, shape))


@pytest.mark.parametrize("field", FIELDS)
@given(data=st.data())
@settings(deadline=None, max_examples=15)
def test_physics_grows_with_work(field: str, data: st.DataObject) -> None:
    """Twice as much along any size does not take less, but where a fit holds the cache for slower than memory (a third
    of the models, mostly by a few percent; Triton's fp8 cache on a B200 by up to three times, at a megabyte or two);
    what is learned on top follows libraries, which do slow down on less work."""
    shape = data.draw(SHAPES[field])
    for size in GROWING[field]:
        small, large = columns(**shape)[0], columns(**shape | {size: 2 * shape[size]})[0]
        for name, model in models(field):
            one, two = (float(model.physics(each).seconds[0]) for each in (small, large))
            assert two > (0.3 if name == "b200 vllm bf16.fp8_cache@vllm_triton_attn" else 0.6) * one, (name, size)


@pytest.mark.parametrize("field", ["attention", "decode"])
@pytest.mark.parametrize("width", [1.0, 8.0, 32.0, 1024.0])
def test_heads_of_a_width_that_nobody_measured_take_no_other_time(field: str, width: float) -> None:
    """Narrower than all that were measured no longer than these; wider so many times as long as the widest, and up to
    four times that where it is too much for a cache that held those."""
    shape = {"attention": prompts(2.0, (16, 8), 1024.0), "decode": tokens(8.0, (16, 8), 1024.0)}[field]
    for name, model in models(field):
        if len(model.widths) < 2:
            continue
        nearest = min(max(width, min(model.widths)), max(model.widths))
        own, known = (
            float(model.predicted(columns(**shape | {"d_head": each, "d_value": each})[0])[0])
            for each in (width, nearest)
        )
        assert (
            0.2 * min(width / nearest, 1) * known < own <= max(1.25, 4 * width / nearest * (width > nearest)) * known
        ), name


@pytest.mark.parametrize("visits", [16.0, 512.0, 2048.0, 3072.0, 8192.0])
def test_a_part_of_experts_takes_no_longer_than_the_whole(visits: float) -> None:
    """A rank's 96 of 768 columns have an eighth of the work, in rows of whole 16 bytes."""
    whole = experts(visits, 8, 0.0, (2048.0, 768.0, 128.0))
    for name, model in models("experts"):
        every, part = (float(model.predicted(columns(**whole | {"tp": tp})[0])[0]) for tp in (1.0, 8.0))
        assert part < 1.3 * every, name


@pytest.mark.parametrize("field", FIELDS)
def test_no_step_where_the_data_end(field: str) -> None:
    """Far beyond all that was measured, what was learned stays what it was at the end, so that time grows by physics:
    the work of large launches, four times of it takes four times as long, give or take what shapes differ by."""
    for name, model in models(field):
        far = {
            "gemm": products(2.0**18, 2.0**17, 2.0**17),
            "attention": prompts(2.0**10, (64, 64), 2.0**17),
            "decode": tokens(2.0**13, (64, 8), 2.0**19),
            "experts": experts(2.0**18, 8, 0.0),
        }[field]
        size = GROWING[field][0]
        times = [float(model.predicted(columns(**far | {size: far[size] * factor})[0])[0]) for factor in (1, 4)]
        assert times[1] / times[0] == pytest.approx(4, rel=0.45), name


@pytest.mark.parametrize("group", [40, 48, 64, 65, 128])
def test_no_switch_at_a_number_of_query_heads(group: int) -> None:
    """One head more on the same key head never makes a token's attention another kernel's, several times as slow."""
    for name, model in models("decode"):
        for batch, context in ((1, 8192), (32, 2048)):
            few, many = (
                model.physics(columns(**tokens(batch, (count, 1), context))[0]).seconds[0]
                for count in (group - 1, group)
            )
            assert 0.97 < many / few < 1.1, name


@pytest.mark.parametrize("count", [1, 300, 5000])
def test_an_array_is_as_many_numbers(count: int) -> None:
    rng = np.random.default_rng(count)
    m, n, k = (np.exp2(rng.uniform(0, 14, count)).round() for _ in range(3))
    for _, model in models("gemm")[:3]:
        found = model.seconds(m, n, k)
        for i in {0, count // 2, count - 1}:
            assert found[i] == pytest.approx(model.seconds(m[i], n[i], k[i]), rel=1e-6)
