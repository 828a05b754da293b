"""Times of attention by what runs it: sums of what is known by heart, ratios as published, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from calc.attention import AttentionShape, standard
from calc.attention.bounds import lengths
from calc.errors import Refused
from calc.spec.run import Run
from calc.time import attention_seconds, decode_attention, kernel_seconds, read_profile, speed_of
from calc.time.attention_calls.backends import DECODERS, FUSED, fused_kernel, kernels_of
from calc.time.attention_calls.crossing import time_crossover
from calc.time.device.priors import priors
from calc.time.device.profile import Launch
from calc.trace.functions import Attend
from harness.cases.models import spec_of
from tests.reference import ROOT
from tests.time.laid import operations
from tests.time.toys import NEVER, toy

SHAPE = AttentionShape(batch=2, heads=16, seq=8192, d_head=128, causal=True, dtype="bf16")
SMALL = AttentionShape(batch=1, heads=4, kv_heads=2, seq=128, d_head=64, causal=True, dtype="fp32")


class Reading:
    """Decoding that does so many FLOP/s."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def seconds(self, *sizes: Any) -> Any:
        batch, heads, _, context, d_head, _, d_value, _ = sizes
        return 2 * batch * heads * context * (d_head + d_value) / self.rate

    def interval(self, level: float) -> tuple[float, float]:
        return 0.9, 1.1


@pytest.mark.parametrize("directions", [("forward",), ("backward",), ("forward", "backward")])
def test_products_alone_take_the_flops_of_standard_attention(directions: Any) -> None:
    rate = 1e6
    found = attention_seconds(toy(rate=rate, kind="cpu"), "reference", SMALL, directions)
    share = {1: 1, 2: 3}[len(directions)] if directions != ("backward",) else 2
    assert found.seconds == pytest.approx(share * standard(SMALL).flops / rate)
    # Called again and again it may find all in a cache.
    assert (found.low, found.high) == pytest.approx((priors()["again"]["low"] * found.seconds, 1.1 * found.seconds))
    assert (found.bound, found.source) == ("compute", "prior")


def test_passes_alone_take_their_bytes() -> None:
    bandwidth = 1e9
    found = attention_seconds(toy(bandwidth=bandwidth), "reference", replace(SMALL, causal=False))
    square = 4 * 4 * 128 * 128
    # Scaled, and softmax.
    assert found.seconds == pytest.approx(2 * 2 * square / bandwidth)


def test_the_host_is_waited_for_by_many_small_kernels() -> None:
    launch = Launch(eager=1.0, graph=0.0)
    device = toy(rate=1e9, bandwidth=1e9, launch=launch)
    eager = attention_seconds(device, "reference", SMALL)
    calls = sum(each.calls for each in kernels_of("reference", SMALL, "forward", "cuda"))
    assert (eager.seconds, eager.bound) == (calls, "launch")
    assert attention_seconds(device, "reference", SMALL, execution="graph").seconds < 0.1
    assert attention_seconds(replace(device, kind="cpu"), "reference", SMALL).seconds > calls


def test_fused_kernels_beside_the_measured_one() -> None:
    """The H100's profile is of FlashAttention-3; others are as much slower as published."""
    made_for_prompts = [name for name in FUSED if name not in DECODERS]
    found = {name: attention_seconds("h100-sxm", name, SHAPE, execution="graph") for name in made_for_prompts}
    own = kernel_seconds("h100-sxm", fused_kernel(SHAPE, False), "graph")
    first = found["flash_attn_3"]
    assert (first.seconds, first.low, first.high) == pytest.approx((own.seconds, own.low, own.high))
    assert (first.source, first.basis) == ("measured", "the profile's kernel")
    rate = {name: 2 * 2 * 16 * 8192**2 * 128 / one.seconds / 1e12 for name, one in found.items()}
    # TFLOP/s of arXiv:2407.08608, figure 5, causal, 8k tokens; of Triton those of our kernel on an H200.
    for name, published in {"flash_attn_3": 602, "sdpa_cudnn": 529, "triton": 443, "sdpa_flash": 333}.items():
        assert rate[name] == pytest.approx(published, rel=0.12), name
    for one in found.values():
        if one is not first:
            assert one.source == "prior"
            assert one.high / one.low > first.high / first.low


DECODE = "triton_decode"


def test_a_profile_that_names_its_kernel_is_the_measure_of_others() -> None:
    """As measured on the machine itself, where PyTorch chose FlashAttention-2."""
    speed = speed_of("h100-sxm")
    own = speed.attention["bf16"].model_copy(update={"kernel_source": "torch 2.11.0 sdpa_flash"})
    here = replace(speed, attention={"bf16": own})
    flash, cudnn = (attention_seconds(here, name, SHAPE, execution="graph") for name in ("sdpa_flash", "sdpa_cudnn"))
    assert (flash.source, flash.basis) == ("measured", "the profile's kernel")
    table = priors()["attention"]["backends"]["Hopper"]["forward"]
    assert cudnn.seconds / flash.seconds == pytest.approx(table["sdpa_cudnn"] / table["sdpa_flash"])
    assert cudnn.basis == "0.63 x the profile's kernel (sdpa_flash)"


def test_a_new_token_waits_for_memory_whoever_reads() -> None:
    shape = AttentionShape(batch=32, heads=32, kv_heads=8, seq=1, keys=8192, d_head=128, causal=True)
    readers = (*DECODERS, "sdpa_flash")
    times = {name: attention_seconds("h100-sxm", name, shape, execution="graph") for name in readers}
    alone = kernel_seconds("h100-sxm", decode_attention(32, 32, 8, 8192, 128, "bf16"), "graph")
    assert {one.seconds for one in times.values()} == {alone.seconds}
    read = 2 * 2 * 32 * 8 * 8192 * 128
    assert 0.8 < read / 3.35e12 / alone.seconds < 1


@pytest.mark.parametrize(
    ("where", "backend", "changes", "fault"),
    [
        ("h100-sxm", "linear", {}, "backend: expected one whose time is known on a cuda device"),
        ("h100-sxm", DECODE, {}, "backend: expected one that is known beside flash_attn_3"),
        ("l4", "sdpa_cudnn", {}, "beside sdpa_flash on l4: none, found sdpa_cudnn"),
        ("tpu-v4", "reference", {}, "--gpu: expected a device that PyTorch runs its kernels on"),
        ("h100-sxm", "reference", {"softcap": 3.0}, "shape: expected no soft-cap"),
        (toy(kind="cpu"), "triton", {}, "backend: expected one whose time is known on a cpu device"),
    ],
)
def test_what_is_not_known_is_refused(where: Any, backend: str, changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(Refused, match=fault):
        attention_seconds(where, backend, replace(SHAPE, **changes))


def test_where_flash_wins_in_time() -> None:
    """Where only bytes take time, standard's squares against nothing; where only FLOPs do, no one wins unless masks
    hide something."""
    shape = AttentionShape(heads=2, seq=1, d_head=64, dtype="bf16")
    by_bytes = time_crossover(toy(bandwidth=1e9, kind="cpu", decode={"bf16": Reading(NEVER)}), shape)
    assert by_bytes.length == 1
    # 4 passes over scores of 2 bytes, for each pair.
    assert by_bytes.standard == pytest.approx(4 * 2 / 1e9)
    by_flops = time_crossover(toy(rate=1e9, kind="cpu", decode={"bf16": Reading(1e9)}), shape)
    assert by_flops.length is None
    assert by_flops.flash == pytest.approx(by_flops.standard)
    published = time_crossover("h100-sxm", shape)
    assert published.length is not None
    tried = lengths()
    at = tried.index(published.length)
    for length, wins in [(tried[at], True), *([(tried[at - 1], False)] if at else [])]:
        one, other = (
            attention_seconds("h100-sxm", name, replace(shape, seq=length, keys=length)).seconds
            for name in ("reference", "sdpa_flash")
        )
        assert (other < one) == wins


def test_windows_to_both_sides_see_twice_as_far() -> None:
    shape = AttentionShape(heads=2, seq=300, d_head=64, window=20, dtype="fp32")
    seen = sum(abs(query - key) < 20 for query in range(300) for key in range(300))
    assert fused_kernel(shape, False).flops == 2 * 2 * seen * 2 * 64
    assert fused_kernel(replace(shape, causal=True), False).flops < 2 * 2 * 300 * 20 * 2 * 64


def test_values_narrower_than_keys_are_no_latents() -> None:
    """One key head of 192 whose values have 128 (as MiMo-V2's are) reads both; absorbed latents are read once."""
    plain = decode_attention(64, 32, 1, 65536, 576, "bf16", d_value=512)
    assert isinstance(plain.shape, Attend)
    latent = plain._replace(shape=replace(plain.shape, latent=True))
    both, once = (kernel_seconds("h100-sxm", each, "graph").seconds for each in (plain, latent))
    # A latent is what kernels of its own were measured reading; the other is scaled from keys of 256 and less.
    assert 1.3 < both / once < 2.5


@pytest.mark.parametrize(("model", "latent"), [("tiny-mla", True), ("tiny-mqa", False), ("tiny-gqa", False)])
def test_the_tree_tells_latents(model: str, latent: bool) -> None:
    setting = Run(phase="decode", seq=1, context=1000, execution="compiled", mode="inference")
    shapes = [each.shape for each in operations(spec_of(model), setting) if each.function == "attention"]
    assert {each.latent for each in shapes if isinstance(each, Attend)} == {latent}


def test_a_window_saves_nothing_on_a_cpu() -> None:
    profile = read_profile(ROOT / "results" / "profiles" / "cpu-intel-xeon-processor-2-cores.json")
    every = attention_seconds(profile, "sdpa_flash", replace(SMALL, causal=False))
    causal = attention_seconds(profile, "sdpa_flash", SMALL)
    for window in (16, 64):
        masked = attention_seconds(profile, "sdpa_flash", replace(SMALL, window=window))
        assert masked.seconds == every.seconds > causal.seconds
