"""What a step takes of the room for caches, held to arithmetic on a model's config."""

from __future__ import annotations

import pytest

from calc.architectures.models import load_model
from calc.errors import Refused
from calc.plan.serving import search_serving
from calc.plan.serving_plan import Slo, Wish
from calc.serve.answer import answer, capacity_of
from calc.serve.layout import layout_of
from calc.serve.service import Service, service_of
from calc.serve.work import LONGEST
from calc.serve.workload import closed_loop
from calc.spec.run.engines import engine_named
from harness.serving.columns import case_of
from harness.serving.rows import ServedRow
from tests.serve.services import llama

D, TOKEN = 4096, 32 * 2 * 8 * 128 * 2
"""Llama-3.1-8B: elements of its residual stream, and bytes that its 32 layers cache of a token in 16 bits."""


def _service(budget: int | None) -> Service:
    spec = load_model("llama-3.1-8b")
    return service_of(spec, "h100-sxm", layout_of(spec), budget=budget)


@pytest.mark.parametrize("budget", [1, 512, 131_072])
def test_a_step_of_other_tokens_leaves_other_room(budget: int) -> None:
    """Activations in 16 bits, six times as wide as the stream: 12 bytes a token and element, of the step that is
    asked for and not of the engine's own."""
    usual = _service(None)
    more = usual.room - _service(budget).room
    assert more == (budget - engine_named("vllm").batched_tokens) * D * 12
    assert usual.running(900, 200) - _service(budget).running(900, 200) == pytest.approx(more / (1000 * TOKEN), abs=2)


def test_the_engines_own_step_is_the_usual_one() -> None:
    assert _service(None).room == _service(engine_named("vllm").batched_tokens).room


def test_a_step_that_takes_all_memory_leaves_no_room() -> None:
    """A million tokens of 49 kB each are 51 GB, beside 16 of weights."""
    assert _service(2**21).room < 0 < _service(2**20).room
    assert _service(2**21).running(1000, 100) == 0


def test_a_fraction_is_of_all_memory_or_of_what_weights_and_a_step_leave() -> None:
    """vLLM's nine tenths are of the GPU, so that what weights take is the cache's loss; TensorRT-LLM's are of the rest
    (free_gpu_memory_fraction), and SGLang's of what is free before weights are loaded, steps having what it leaves
    (mem-fraction-static)."""
    for name in ("vllm", "trtllm", "sglang"):
        engine = engine_named(name)
        small, large = (llama(engine=name, gpu="h200", dtype=dtype) for dtype in ("fp8", "bf16"))
        lost = small.room - large.room
        more = large.rank.held - small.rank.held
        assert lost == pytest.approx(more * (engine.memory_fraction if name == "trtllm" else 1))
        taken = large.rank.held + large.budget * D * 12 + 2 * 2**30
        usable = large.device.usable
        room = {
            "vllm": 0.9 * usable - taken,
            "trtllm": 0.9 * (usable - taken),
            "sglang": 0.88 * (usable - 2 * 2**30) - large.rank.held,
        }
        assert large.room == pytest.approx(room[name])


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
