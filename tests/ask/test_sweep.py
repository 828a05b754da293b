"""A column of a sweep holds what `estimate` says of each of its rows, of models whose layers differ by length."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from calc.architectures import from_config
from calc.ask.estimate import estimate
from calc.ask.sweep import sweep
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
