"""A column of a sweep holds what `estimate` says of each of its rows, of models whose layers differ by length."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from calc import load_model
from calc.architectures import from_config
from calc.ask.estimate import estimate
from calc.ask.sweep import sweep
from calc.spec.resizing import with_sizes
from tests import reference

COLUMNS = {"seq": [64, 513, 1024, 4097], "batch": [1, 2, 5]}
RUNS: dict[str, dict[str, tuple[dict[str, Any], ...]]] = {
    "gemma-4-26B-A4B": {"memory.total": ({"execution": "compiled"},), "memory.peak": ({"checkpointing": "full"},)},
    "EXAONE-4.0-32B": {
        "memory.total": ({"execution": "sdpa"}, {"execution": "compiled"}),
        "memory.peak": ({"execution": "sdpa", "checkpointing": "full"}, {"mode": "inference"}),
    },
    "Olmo-3.1-32B": {"memory.peak": ({"execution": "sdpa", "checkpointing": "full"}, {"execution": "eager"})},
    "DeepSeek-V4-Pro": {"traffic.forward": ({},), "traffic.training": ({},)},
    "bart-base": {"memory.peak": ({},), "traffic.training": ({},)},
    "falcon-7b": {"memory.peak": ({}, {"execution": "eager"})},
    "t5-small": {"memory.peak": ({"mode": "inference"},), "traffic.decode": ({},), "kv_cache": ({},)},
    "whisper-base": {"memory.total": ({},), "traffic.forward": ({},)},
}
"""Model -> quantity -> runs: windows that some lengths do not reach, entries that are not complete, two stacks,
one head of keys."""


@pytest.mark.parametrize("name", RUNS)
def test_every_row_is_the_estimate(name: str) -> None:
    reference.folder()
    spec = from_config(reference.config(name))
    for quantity, runs in RUNS[name].items():
        for words in runs:
            for size, column in COLUMNS.items():
                found = sweep(spec, [quantity], {size: numpy.array(column)}, **words)[quantity]
                alone = [estimate(spec, quantity, **{size: each}, **words).value for each in column]
                assert found == pytest.approx(numpy.array(alone, dtype=float), rel=1e-9), (quantity, words, size)


@pytest.mark.parametrize(
    ("name", "quantity", "size", "column"),
    [
        ("phi-2", "memory.total", "seq", [1, 4]),
        ("phi-2", "memory.peak", "n_heads", [1, 4]),
        ("DeepSeek-V2-Lite", "memory.total", "seq", [1, 4]),
        ("DeepSeek-V4-Pro", "traffic.decode", "context", [1, 2, 3, 5, 126, 129]),
    ],
)
def test_a_row_is_the_estimate_of_its_own_sizes_whatever_the_others_are(
    name: str, quantity: str, size: str, column: list[int]
) -> None:
    """Of one token or head some views need no copy; a token that completes no entry runs no op that writes one."""
    reference.folder()
    spec = from_config(reference.config(name))
    found = sweep(spec, [quantity], {size: numpy.array(column)})[quantity]

    def alone(n: int) -> float:
        if size == "n_heads":
            return estimate(with_sizes(spec, {size: n}), quantity).value
        words: dict[str, Any] = {size: n}
        return estimate(spec, quantity, **words).value

    assert found.tolist() == [alone(n) for n in column]


def test_a_plan_that_cannot_be_has_no_total_where_no_rank_s_bytes_tell() -> None:
    """Without experts, what the ranks of a pipeline hold does not depend on --ep, whose columns are still refused."""
    sizes = {"pp": numpy.array([1, 2, 2]), "ep": numpy.array([2, 2, 1])}
    for quantity in ("memory.total", "memory.peak"):
        found = sweep(load_model("llama-3-8b"), [quantity], sizes)[quantity]
        assert numpy.isnan(found).tolist() == [True, True, False]


def test_heads_that_do_not_divide_still_have_a_number_beside_those_that_do() -> None:
    spec = load_model("llama-3-8b")
    found = sweep(spec, ["memory.peak"], {"n_heads": numpy.array([1, 8, 32]), "batch": numpy.array([1, 1, 2])})
    assert numpy.isfinite(found["memory.peak"]).all()


def test_no_token_visits_more_experts_than_there_are() -> None:
    reference.folder()
    spec = from_config(reference.config("Mixtral-8x7B"))
    found = sweep(spec, ["traffic.training"], {"top_k": numpy.array([2, 8, 16])})["traffic.training"]
    assert numpy.isnan(found).tolist() == [False, False, True]
