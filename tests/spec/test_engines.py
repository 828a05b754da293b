"""Serving engines: one description of each, by which servers are simulated and caches are allocated."""

from __future__ import annotations

import pytest

from calc.architectures.models import load_model
from calc.errors import Refused
from calc.memory.cache import batched_tokens, cache_columns
from calc.serve.launching import launch
from calc.serve.layout import layout_of
from calc.serve.service import service_of
from calc.spec.run import Run
from calc.spec.run.engines import allocating_names, engine_named, engine_names


def test_a_step_of_an_engine_is_as_long_wherever_it_is_asked() -> None:
    spec = load_model("llama-3.1-8b")
    for name in allocating_names():
        assert batched_tokens(Run(engine=name)) == service_of(spec, "h200", layout_of(spec), name).budget


@pytest.mark.parametrize(
    ("gpu", "tokens", "sequences"),
    [
        ("h100-sxm", 8192, 1024),
        ("mi300x", 8192, 1024),
        ("rtx-pro-6000", 8192, 1024),
        ("a100-sxm-80gb", 2048, 256),
        ("l40s", 2048, 256),
        ("rtx-4090", 2048, 256),
    ],
)
def test_vllm_takes_less_in_a_step_where_memory_is_small_and_on_a100(gpu: str, tokens: int, sequences: int) -> None:
    """As get_batch_defaults of its arg_utils.py has it; what is asked for is taken everywhere."""
    spec = load_model("qwen3-0.6b")
    service = service_of(spec, gpu, layout_of(spec))
    assert (service.budget, service.max_running) == (tokens, sequences)
    assert f"--max-num-batched-tokens {tokens} " in " ".join(launch("vllm", "path", [service], 512, [8]))
    asked = service_of(spec, gpu, layout_of(spec), budget=4096, running=512)
    assert (asked.budget, asked.max_running) == (4096, 512)


def test_caches_are_allocated_where_the_rules_are_known() -> None:
    assert list(cache_columns(load_model("gpt2"), Run(mode="inference", seq=100))) == ["theory", *allocating_names()]
    unknown = set(engine_names()) - set(allocating_names())
    assert {"sglang", "trtllm"} <= unknown
    for name in unknown:
        with pytest.raises(Refused, match="engine"):
            Run(engine=name)


@pytest.mark.parametrize("name", allocating_names())
def test_rules_of_allocation_say_where_they_were_read(name: str) -> None:
    rules = engine_named(name).allocation
    assert rules is not None
    assert rules.source
    assert rules.rules
    assert rules.latent_block % engine_named(name).block == 0
