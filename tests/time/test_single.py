"""Single kernels: their FLOPs and bytes, and their time on devices known by heart and on published ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc.spec.load import Load
from calc.time import attention_kernel, decode_attention, exchange, kernel_seconds, matmul, pass_bytes, pass_over
from calc.time.device.profile import Launch
from calc.time.kernels.launching import launching
from tests.time.toys import toy


def test_a_product() -> None:
    kernel = matmul(3, 5, 7, "bf16", batch=2)
    assert (kernel.flops, kernel.bytes) == (2 * 2 * 3 * 5 * 7, 2 * 2 * (21 + 35 + 15))
    timing = kernel_seconds(toy(rate=1e3), kernel)
    assert (timing.seconds, timing.low, timing.high) == pytest.approx((0.42, 0.9 * 0.42, 1.1 * 0.42))
    assert timing.source == "measured"


def test_the_host_is_waited_for_where_it_takes_longer() -> None:
    launch = Launch(eager=1.0, graph=0.0)
    assert kernel_seconds(toy(rate=1e3, launch=launch), matmul(3, 5, 7, "bf16")).seconds == 1.0
    assert kernel_seconds(toy(rate=1e3, launch=launch), matmul(3, 5, 7, "bf16"), "graph").seconds < 1.0
    on_cpu = toy(rate=1e3, launch=launch, kind="cpu")
    assert kernel_seconds(on_cpu, matmul(3, 5, 7, "bf16")).seconds == pytest.approx(0.21)


@given(st.integers(1, 300), st.integers(0, 300), st.none() | st.integers(1, 400))
def test_pairs_are_those_that_the_mask_keeps(seq: int, cached: int, window: int | None) -> None:
    keys, d = cached + seq, 8
    seen = sum(min(cached + i + 1, keys if window is None else window) for i in range(seq))
    kernel = attention_kernel(1, 2, 1, seq, keys, d, "bf16", window=window)
    assert kernel.flops == 2 * 2 * seen * 2 * d
    load = Load(batch=1, seq=seq, context=cached, scores="causal-exact")
    assert 2 * seen == load.twice_pairs(window)


def test_backward_of_attention_has_two_and_a_half_times_the_flops() -> None:
    forward, back = (attention_kernel(2, 8, 2, 64, 64, 16, "bf16", backward=back) for back in (False, True))
    assert back.flops == 2.5 * forward.flops


def test_decode_reads_its_cache_once() -> None:
    kernel = decode_attention(4, 32, 8, 1000, 128, "bf16")
    assert kernel.bytes == 4 * 2 * (2 * 8 * 1000 * 128 + 2 * 32 * 128)
    on_h100 = kernel_seconds("h100-sxm", decode_attention(64, 32, 8, 16384, 128, "bf16"))
    cache = 64 * 2 * 2 * 8 * 16384 * 128
    assert 0.7 < cache / 3.35e12 / on_h100.seconds < 1


@pytest.mark.parametrize(
    ("function", "copies", "back"),
    [("add", 3, 3), ("swiglu", 3, 5), ("rmsnorm", 2, 3), ("rope", 2, 2), ("softmax", 2, 3), ("cross_entropy", 1, 2)],
)
def test_passes_read_and_write_each_operand_once(function: str, copies: int, back: int) -> None:
    assert pass_bytes(function, 1000, 2) == copies * 2000
    assert pass_over(function, 1000, "bf16").bytes == copies * 2000
    assert pass_over(function, 1000, "bf16", backward=True).bytes == back * 2000
    # Profiles find the way back by the bytes of the way there.
    assert pass_over(function, 1000, "bf16", backward=True).profiled_bytes == copies * 2000


def test_large_kernels_come_near_the_limits_of_a_published_device() -> None:
    product = kernel_seconds("h100-sxm", matmul(8192, 8192, 8192, "bf16"))
    assert 0.7 < 2 * 8192**3 / 989.4e12 / product.seconds < 0.87
    copy = kernel_seconds("h100-sxm", pass_over("copy", 10**9, "bf16"))
    assert copy.bound == "memory"
    assert 0.8 < 4e9 / 3.35e12 / copy.seconds < 0.92
    reduced = kernel_seconds("h100-sxm", exchange("all_reduce", 10**9, 8))
    assert reduced.bound == "network"
    assert 10**9 * 2 * 7 / 8 / reduced.seconds < 450e9


def test_a_small_kernel_waits_for_its_launch() -> None:
    assert kernel_seconds("h100-sxm", matmul(16, 16, 16, "bf16")).bound == "launch"


def test_compiled_code_never_takes_the_time_of_modules() -> None:
    """Profiles that are measured know nothing of compiled code: it takes what any kernel does."""
    launch = Launch(eager=1.0, module=5.0, backward=2.0, graph=0.0)
    device = toy(launch=launch)
    inside = matmul(1, 1, 1, "bf16")._replace(place="layers")
    assert launching(inside, 1.0, device, "sdpa") == (0.0, 5.0)
    assert launching(inside._replace(place=""), 1.0, device, "sdpa") == (0.0, 1.0)
    assert launching(inside._replace(direction="backward"), 1.0, device, "sdpa") == (0.0, 2.0)
    assert launching(inside, 1.0, device, "compiled") == (0.0, 1.0)
    assert launching(inside, 1.0, device, "graph") == (0.0, 0.0)
