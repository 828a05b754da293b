"""Serving engines: one description of each, by which servers are simulated and caches are allocated."""

from __future__ import annotations

import pytest

from calc.architectures.models import load_model
from calc.errors import Refused
from calc.memory.cache import batched_tokens, cache_columns
from calc.serve.layout import layout_of
from calc.serve.service import service_of
from calc.spec.run import Run
from calc.spec.run.engines import allocating_names, engine_named, engine_names


def test_a_step_of_an_engine_is_as_long_wherever_it_is_asked() -> None:
    spec = load_model("llama-3.1-8b")
    for name in allocating_names():
        assert batched_tokens(Run(engine=name)) == service_of(spec, "h200", layout_of(spec), name).budget


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
