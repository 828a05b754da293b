"""Our Triton kernels: in the interpreter on a CPU, compiled where there is a GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings

from harness.kernels import KERNELS, AttentionShape
from tests.harness.kernels.shapes import BOUNDS, errors, shapes

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
REASON = KERNELS["triton"].available(DEVICE)
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

PLAIN = AttentionShape(batch=2, heads=4, kv_heads=2, seq=33, d_head=16, dtype="fp32")
BACK = replace(PLAIN, direction="backward")
drawn = shapes(softcap=None, alibi=False, direction="forward", dtype="fp32")
few = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def hold(name: str, shape: AttentionShape, **options: int) -> None:
    if DEVICE == "cuda" and shape.dtype == "fp32":
        shape = replace(shape, dtype="bf16")
    assert KERNELS[name].supports(shape, DEVICE) is None
    assert max(errors(name, shape, DEVICE, **options).values()) <= BOUNDS[shape.dtype]


@pytest.mark.slow
@few
@given(shape=drawn)
@example(shape=replace(PLAIN, causal=True))
@example(shape=replace(PLAIN, causal=True, window=20, dtype="fp16"))
@example(shape=replace(PLAIN, window=5, lengths=(0, 20)))
@example(shape=replace(PLAIN, seq=20, keys=50, causal=True, d_head=24, d_value=8))
@example(shape=replace(PLAIN, seq=40, keys=33, causal=True))
def test_prefill(shape: AttentionShape) -> None:
    hold("triton", shape)


@pytest.mark.slow
@few
@given(shape=shapes(softcap=None, alibi=False, direction="backward", dtype="fp32"))
@example(shape=replace(BACK, causal=True))
@example(shape=replace(BACK, causal=True, window=20, dtype="fp16"))
@example(shape=replace(BACK, window=5, lengths=(0, 20)))
@example(shape=replace(BACK, seq=20, keys=50, causal=True, d_head=24, d_value=8))
@example(shape=replace(BACK, seq=40, keys=33, causal=True))
def test_backward(shape: AttentionShape) -> None:
    hold("triton", shape)


@pytest.mark.slow
@few
@given(shape=drawn.filter(lambda shape: KERNELS["triton_decode"].supports(shape) is None))
@example(shape=replace(PLAIN, seq=1, keys=70, causal=True, dtype="fp16"))
@example(shape=replace(PLAIN, seq=3, keys=70, causal=True, window=9))
@example(shape=replace(PLAIN, seq=3, keys=70, lengths=(0, 40), d_value=8))
def test_decode(shape: AttentionShape) -> None:
    hold("triton_decode", shape)
    hold("triton_paged", shape)


@pytest.mark.parametrize("splits", [1, 2, 5])
@pytest.mark.parametrize("name", ["triton_decode", "triton_paged"])
def test_any_number_of_splits_gives_the_same(name: str, splits: int) -> None:
    hold(name, replace(PLAIN, heads=8, seq=2, keys=75, causal=True), splits=splits)


@pytest.mark.parametrize("keys", [1, 15, 64, 1000, 131_072])
@pytest.mark.parametrize("cores", [1, 132])
def test_every_key_has_one_program_and_every_program_has_keys(keys: int, cores: int) -> None:
    from harness.kernels.triton_decode import share

    splits, each = share(replace(PLAIN, seq=1, keys=keys), 64, cores)
    assert each % 64 == 0
    assert (splits - 1) * each < keys <= splits * each
