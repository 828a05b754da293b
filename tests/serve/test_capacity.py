"""What a step and weights leave of the room for caches, held to what engines logged when they started."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from calc.architectures.models import load_model
from calc.errors import Refused
from calc.plan.serving import search_serving
from calc.plan.serving_plan import Slo, Wish
from calc.serve.answer import answer
from calc.serve.closed_form import capacity_of
from calc.serve.layout import layout_of
from calc.serve.service import Service, service_of
from calc.serve.work import LONGEST
from calc.serve.workload import closed_loop
from calc.spec.run.engines import engine_named
from harness.serving.columns import case_of
from harness.serving.rows import ServedRow
from tests.reference import folder
from tests.serve.services import llama

TOKEN = 32 * 2 * 8 * 128 * 2
"""Llama-3.1-8B: bytes that its 32 layers cache of a token in 16 bits."""
GIB = 2**30
LOGGED = [
    # docs.sglang.ai/start/send_request.html, of 2025-01-23: K size: 27.13 GB, V size: 27.13 GB; at 0.88
    ("sglang", "llama-3.1-8b", "h100-sxm", "bf16", None, 27.13 + 27.13),
    # myoceane.fr/index.php/ai-vllm-a100-gemma-4, 2026-04-18, vLLM 0.19: Available KV cache memory
    ("vllm", "gpt-oss-20b", "a100-sxm-80gb", "mxfp4", 0.65, 36.56),
    ("vllm", "gemma-4-26B-A4B.json", "a100-sxm-80gb", "bf16", 0.9, 21.5),
    # TensorRT-LLM 1.2.1's log of Qwen3-Reranker-0.6B: Allocated 68.69 GiB for max tokens in paged KV cache (643136)
    ("trtllm", "qwen3-0.6b", "h100-sxm", "bf16", None, 68.69),
]
"""What engines said when they started: engine, model (a preset, or a config of the reference data), GPU, format,
fraction of memory where not the default, GiB of the cache."""


def _service(budget: int | None) -> Service:
    spec = load_model("llama-3.1-8b")
    return service_of(spec, "h100-sxm", layout_of(spec), budget=budget)


@pytest.mark.parametrize(("engine", "model", "gpu", "dtype", "fraction", "logged"), LOGGED)
def test_room_for_caches_is_what_engines_logged(
    engine: str, model: str, gpu: str, dtype: str, fraction: float | None, logged: float
) -> None:
    """Within 2 %, of the GPU's memory by three rules of what a fraction is of; what logs tell, no formula saw."""
    spec = load_model(str(folder() / "truth" / "configs" / model) if model.endswith(".json") else model)
    service = service_of(spec, gpu, layout_of(spec), engine, dtype, "bf16")
    if fraction is not None:
        service = replace(service, engine=replace(service.engine, memory_fraction=fraction))
    assert service.room / GIB == pytest.approx(logged, rel=0.02)


def test_tokens_of_the_cache_are_those_that_engines_logged() -> None:
    """SGLang's max_total_num_tokens=444500 and TensorRT-LLM's 643,136 tokens, from the same logs."""
    for (engine, model, gpu, dtype, _, _), logged in ((LOGGED[0], 444_500), (LOGGED[3], 643_136)):
        spec = load_model(model)
        service = service_of(spec, gpu, layout_of(spec), engine, dtype, "bf16")
        assert service.blocks(1024) * service.engine.block == pytest.approx(logged, rel=0.02)


def test_a_step_of_more_tokens_leaves_less_room() -> None:
    """And as many sequences fewer as that room would have held, of 1,000 tokens half-way."""
    budgets = (1, 512, engine_named("vllm").batched_tokens, 131_072)
    rooms = [_service(each).room for each in budgets]
    assert rooms == sorted(rooms, reverse=True)
    assert len(set(rooms)) == len(budgets)
    most = [_service(each).running(900, 200) for each in budgets]
    for (one, other), (many, few) in zip(pairwise(rooms), pairwise(most), strict=True):
        assert many - few == pytest.approx((one - other) / (1000 * TOKEN), abs=2)
    assert _service(None).room == rooms[2]


def test_a_step_that_takes_all_memory_leaves_no_room() -> None:
    """Tens of kilobytes a token: two millions of them beside 16 GB of weights."""
    assert _service(2**21).room < 0 < _service(2**19).room
    assert _service(2**21).running(1000, 100) == 0


def test_what_weights_take_is_lost_to_the_cache_by_the_engines_rule() -> None:
    """vLLM's fraction is of the GPU and SGLang's of what is free before weights are loaded, so that all that weights
    take is the cache's loss; TensorRT-LLM's is of the rest (free_gpu_memory_fraction), nine tenths of the loss."""
    for name, share in (("vllm", 1.0), ("sglang", 1.0), ("trtllm", 0.9)):
        small, large = (llama(engine=name, gpu="h200", dtype=dtype) for dtype in ("fp8", "bf16"))
        more = large.rank.held - small.rank.held
        assert more > 6 * GIB
        assert small.room - large.room == pytest.approx(share * more)


def test_a_measured_server_runs_as_many_sequences_as_the_product_says() -> None:
    """With the token table, and no more than whole requests have room for: 70 B parameters on one H200 of 141 GB."""
    row = ServedRow(
        "made",
        "h200",
        "llama-70b",
        "vllm",
        "h200 llama-70b vllm",
        "bf16",
        "bf16",
        8192,
        1024,
        64.0,
        2,
        {"tp": 2},
        0.1,
        0.02,
        None,
    )
    spec = load_model("llama-3.1-70b")
    case = case_of(row, spec)
    service = service_of(spec, "h200", layout_of(spec, tp=2), "vllm", "bf16", "bf16")
    assert case.running == service.running(8192, 1024) > 1
    assert case.rank.tables == 128_256 * 8192 * 2 / 2


def test_the_longest_sequence_is_the_same_to_all_who_ask() -> None:
    """Two million tokens: to closed forms, simulations, plans and traces alike."""
    service = llama()
    assert service.running(LONGEST - 1, 1) == service.running(LONGEST, 0) == 0
    for ask in (
        lambda: service.blocks(LONGEST + 1),
        lambda: service.running(LONGEST, 1),
        lambda: capacity_of(service, LONGEST, 1),
        lambda: answer(service, closed_loop(1, LONGEST, 1, 1)),
        lambda: search_serving(Wish(service.spec, ("h100-sxm",), (1, 1), LONGEST, 1, Slo())),
    ):
        with pytest.raises(Refused, match="sequence: expected at most 2,097,152 tokens of prompt and answer"):
            ask()
