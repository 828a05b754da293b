"""How long a model of eight billion parameters takes to trace, and how much memory."""

from __future__ import annotations

import resource
from typing import Any

import pytest

pytest.importorskip("transformers")

import calc
from calc.tracing.loading import load_traced


def test_tracing_llama_3_8b(benchmark: Any) -> None:
    """At most 30 s and 2 GB, torch itself included."""

    def trace() -> int:
        return int(calc.estimate(load_traced("llama-3-8b"), "flops.forward", seq=2048).value)

    flops = benchmark.pedantic(trace, rounds=1, iterations=1)
    assert flops == calc.estimate(calc.load_model("llama-3-8b"), "flops.forward", seq=2048).value
    benchmark.extra_info["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
