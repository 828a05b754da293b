"""Cases of attention: what they count and forecast, that parts of long results are held against the reference, and that
memory grows as it should."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from calc.attention.latent import latent  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.time.device.profile import shipped_profile  # noqa: E402
from harness.cases import attention_error, attention_suite, make  # noqa: E402
from harness.cases.attention import AttentionCase, DecodeAttentionCase  # noqa: E402
from harness.kernels import KERNELS  # noqa: E402
from harness.measuring.inspection import inspect, live_bytes  # noqa: E402
from harness.suites import budget, suite_cases  # noqa: E402
from tests.harness.cases.test_description import machine  # noqa: E402

SMALL: dict[str, Any] = {"heads": 4, "kv_heads": 2, "d_head": 16, "dtype": "fp32"}
MORE: list[tuple[str, dict[str, Any]]] = [
    ("attention", {"backend": "sdpa_flash", "seq": 20, "keys": 50, **SMALL}),
    ("attention", {"backend": "tiled", "seq": 20, "keys": 50, "d_value": 8, **SMALL}),
    ("attention", {"backend": "reference", "seq": 30, "window": 7, "causal": False, **SMALL}),
    ("attention", {"backend": "flex", "seq": 30, "window": 7, **SMALL}),
    ("attention", {"backend": "tiled", "seq": 70, "direction": "backward", **SMALL}),
    *(
        ("decode_attention", {"backend": each, "context": 50, "heads": 4, "d_head": 16, "kv_rank": 24, "d_rope": 8})
        for each in ("mla_naive", "mla_absorbed")
    ),
]


@pytest.mark.parametrize("scores", [attention_error.SCORES, 1000])
@pytest.mark.parametrize(("kind", "params"), MORE, ids=lambda each: each if isinstance(each, str) else None)
def test_the_check_passes_of_the_whole_and_of_slices(
    kind: str, params: dict[str, Any], scores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_error, "SCORES", scores)
    ready = make(kind, params).ready("cpu")
    assert ready.check is not None
    assert ready.check() <= ready.tolerance


@pytest.mark.parametrize(("direction", "tensor"), [("forward", 0), ("backward", 0), ("backward", 1), ("backward", 2)])
@pytest.mark.parametrize(("row", "found"), [(-1, True), (0, True), (35, False)])
def test_slices_find_what_is_wrong_in_them(
    direction: Any, tensor: int, row: int, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First and last queries are seen, and of gradients the last keys; what is between them is not."""
    monkeypatch.setattr(attention_error, "SCORES", 2 * 70 * 10)
    case = AttentionCase("reference", 70, 4, 16, kv_heads=2, dtype="fp32", direction=direction)
    backend, shape = KERNELS["reference"], case.shape()
    q, k, v = backend.inputs(shape, "cpu", 0)
    out = backend.forward(q, k, v, shape)
    gradient = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    results = [out] if direction == "forward" else list(torch.autograd.grad(out, (q, k, v), gradient))
    results = [each.detach().clone() for each in results]

    def error() -> float:
        given = results[0] if direction == "forward" else results
        return attention_error.error(shape, "reference", given, (q, k, v, out, gradient))

    assert error() < 1e-5
    results[tensor][0, 0, row] += 1
    first_keys = direction == "backward" and tensor > 0 and row == 0
    assert (error() > 1e-2) == (found and not first_keys)


@pytest.mark.slow
def test_memory_grows_as_the_square_or_as_the_length() -> None:
    """Measured, as the record keeps it, and as forecast: twice the length, four times the scores."""

    def peaks(backend: str) -> list[tuple[int, float | None]]:
        found = []
        for seq in (512, 1024):
            case = AttentionCase(backend, seq, 4, 32, dtype="fp32")
            # Other tests of this process may hold tensors; a worker holds none but the case's.
            others = live_bytes()
            seen = inspect(case.ready("cpu"), "cpu").peak_bytes
            assert seen is not None
            found.append((seen - others, case.peak("cpu")))
        return found

    square = 4 * 4 * 512 * 512
    (short, told), (long, told_long) = peaks("reference")
    assert long - short > 3 * 3 * square
    assert (told, told_long) == (pytest.approx(short, rel=0.05), pytest.approx(long, rel=0.05))
    for backend in ("sdpa_flash", "tiled"):
        (short, told), (long, told_long) = peaks(backend)
        assert long < 2.2 * short
        if backend == "sdpa_flash":
            assert (told, told_long) == (pytest.approx(short, rel=0.05), pytest.approx(long, rel=0.05))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_suite_has_every_backend_and_promises_an_end(device: Any) -> None:
    cases = suite_cases("attention", machine(device))
    attention = [case for case in cases if isinstance(case, AttentionCase | DecodeAttentionCase)]
    assert {case.backend for case in attention} >= set(KERNELS) - {"linear_reference"}
    limit = budget("attention", machine(device))
    assert limit is not None
    assert limit <= {"cpu": 180, "cuda": 600}[device]
    phases = {case.shape().phase for case in attention}
    assert phases == {"prefill", "decode", "mixed"}
    assert {case.shape().direction for case in attention} == {"forward", "backward"}
    groups = {case.shape().kv_heads for case in attention if isinstance(case, DecodeAttentionCase)}
    assert {1, 8, 32} <= groups
    assert any(case.shape().kv_rank == 512 for case in attention)
    if device == "cuda":
        assert {case.shape().d_head for case in attention} >= {64, 128, 256}
        assert {case.shape().seq for case in attention} >= {2**n for n in range(9, 16)} | {2**17}
        # What the rest is a ratio to comes first.
        assert [case.kind for case in cases[:2]] == ["matmul", "pass"]


def test_every_case_that_a_gpu_runs_is_forecast_and_fits() -> None:
    profile, gpu = shipped_profile("h100-sxm"), machine("cuda")
    assert profile is not None
    for case in attention_suite.attention(gpu):
        if getattr(case, "backend", "") == "linear":
            assert case.forecast(profile) is None
        elif case.unsupported(gpu) is None:
            forecast = case.forecast(profile)
            assert forecast is not None, case.id
            assert forecast.low < forecast.seconds < forecast.high
            assert case.memory() < gpu.memory, case.id


def test_forecasts_say_what_they_rest_on() -> None:
    profile = shipped_profile("h100-sxm")
    assert profile is not None
    told = {
        name: AttentionCase(name, 8192, 16, 128, 2).forecast(profile) for name in ("sdpa_cudnn", "reference", "linear")
    }
    assert told["linear"] is None
    assert told["sdpa_cudnn"] is not None
    assert told["sdpa_cudnn"].source.endswith(": 1.14 x the profile's kernel (flash_attn_3)")
    assert told["reference"] is not None
    assert told["reference"].source.endswith(": products and passes, each by itself")
    assert told["reference"].peak_bytes is not None
    # Three squares of scores in bf16.
    assert told["reference"].peak_bytes > 3 * 2 * 2 * 16 * 8192**2


def test_latents_are_counted_as_calc_counts_them() -> None:
    sizes: dict[str, Any] = {"context": 100, "heads": 8, "d_head": 128, "kv_rank": 512, "d_rope": 64}
    for name in ("mla_naive", "mla_absorbed"):
        case = make("decode_attention", {"backend": name, **sizes})
        assert isinstance(case, DecodeAttentionCase)
        shape = case.shape()
        assert (shape.d_head, shape.d_value, shape.kv_rank, shape.d_rope) == (192, 128, 512, 64)
        assert case.counts()["flops"] == latent(shape, name == "mla_absorbed").flops
    plain = {name: value for name, value in sizes.items() if name not in ("kv_rank", "d_rope")}
    for wrong, fault in (
        ({"backend": "sdpa_flash", **sizes}, "backend: expected one of mla_naive, mla_absorbed"),
        ({"backend": "mla_naive", **plain}, "backend: expected one of reference"),
        ({"backend": "mla_naive", **sizes, "d_rope": None}, "d_rope: expected kv_rank and d_rope together"),
    ):
        with pytest.raises(Refused, match=fault):
            make("decode_attention", wrong)


def test_backends_that_cannot_run_say_why() -> None:
    cpu, gpu = machine("cpu"), machine("cuda")
    cudnn = AttentionCase("sdpa_cudnn", 512, 4, 64)
    assert cudnn.unsupported(cpu) == "sdpa_cudnn: runs on cuda only"
    assert cudnn.unsupported(gpu) is None
    assert replace(cudnn, seq=100, keys=512).unsupported(gpu) == (
        "sdpa_cudnn: has no causal mask of queries that continue a cache"
    )
    back = AttentionCase("triton", 512, 4, 64, direction="backward")
    assert back.unsupported(gpu) is None
    assert AttentionCase("triton_decode", 16, 4, 64, direction="backward").unsupported(gpu) == (
        "triton_decode: has no backward pass"
    )
