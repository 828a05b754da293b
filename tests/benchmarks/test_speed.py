"""How fast the calculator is. Compared within one run: groups hold a command beside its yardstick."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy
import pytest

import calc
from calc.architectures import from_config
from tests import reference
from tests.reference import ROOT

pytestmark = pytest.mark.slow

YARDSTICK = "import click; from pydantic import BaseModel; A = type('A', (BaseModel,), {})"


@pytest.mark.benchmark(group="cold start: params is to stay within twice the yardstick", min_rounds=5)
@pytest.mark.parametrize(
    "command",
    [["-c", YARDSTICK], ["-m", "calc", "params", "llama-3-8b", "--json"]],
    ids=["yardstick", "params"],
)
def test_cold_start(benchmark: Any, command: list[str]) -> None:
    done = benchmark(
        lambda: subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=True)
    )
    if "-m" in command:
        assert '"total": 8030261248' in done.stdout


@pytest.mark.benchmark(group="report is to come within a second", min_rounds=3)
def test_report(benchmark: Any) -> None:
    command = [sys.executable, "-m", "calc", "report", "llama-3-8b"]
    done = benchmark(lambda: subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True))
    assert "8,030,261,248" in done.stdout


@pytest.mark.benchmark(group="a point query is to take at most 1 ms")
@pytest.mark.parametrize("quantity", ["params", "flops.training", "kv_cache"])
@pytest.mark.parametrize("model", ["llama-3-8b", "gemma-2-9b", "qwen3-30b-a3b"])
def test_point_query(benchmark: Any, model: str, quantity: str) -> None:
    spec = calc.load_model(model)
    assert benchmark(calc.estimate, spec, quantity).value > 0


@pytest.mark.benchmark(group="a million configurations are to take at most 0.5 s on one core", min_rounds=3)
def test_a_million_configurations(benchmark: Any) -> None:
    random = numpy.random.default_rng(0)
    n = 10**6
    sizes = {
        "d_model": random.integers(1, 128, n) * 128,
        "n_layers": random.integers(1, 128, n),
        "d_ff": random.integers(1, 512, n) * 128,
        "vocab_size": random.integers(1_000, 250_000, n),
        "seq": random.integers(128, 32_768, n),
    }
    spec = calc.load_model("llama-3-8b")
    columns = benchmark(calc.sweep, spec, ["params", "flops.training"], sizes)
    one = {name: int(values[-1]) for name, values in sizes.items()}
    seq = one.pop("seq")
    exact = calc.with_sizes(spec, one)
    assert columns["params"][-1] == pytest.approx(calc.estimate(exact, "params").value, rel=1e-12)
    assert columns["flops.training"][-1] == pytest.approx(
        calc.estimate(exact, "flops.training", seq=seq).value, rel=1e-12
    )


@pytest.mark.benchmark(group="a million ways to train a model are to take at most 1 s on one core", min_rounds=3)
def test_a_million_ways_to_train(benchmark: Any) -> None:
    random = numpy.random.default_rng(0)
    n = 10**6
    sizes = {
        "batch": random.integers(1, 64, n),
        "seq": random.integers(128, 32_768, n),
        "dp": 2 ** random.integers(0, 11, n),
        "tp": 2 ** random.integers(0, 4, n),
        "zero": random.integers(0, 4, n),
    }
    spec = calc.load_model("llama-3-8b")
    column = benchmark(calc.sweep, spec, ["memory.peak"], sizes, checkpointing="full")["memory.peak"]
    one = {name: int(values[-1]) for name, values in sizes.items()}
    load = {name: one.pop(name) for name in ("batch", "seq")}
    exact = calc.estimate(spec, "memory.peak", **one, checkpointing="full", **load).value
    assert column[-1] == pytest.approx(exact, rel=1e-12)


@pytest.mark.benchmark(group="the formula of a peak is to come within three seconds", min_rounds=1)
@pytest.mark.parametrize("name", [record["name"] for record in reference.models()])
def test_formula_of_a_peak(benchmark: Any, name: str) -> None:
    spec = from_config(reference.config(name))
    found = benchmark.pedantic(lambda: calc.explain(spec, "memory.peak"), rounds=1, iterations=1)
    assert found.estimate.value > 0
