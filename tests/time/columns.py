"""Plans as columns of one step against each plan alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import calc
from calc.errors import Refused
from calc.time import predict
from calc.time.step.plans import step_times


def agreeing(model: str, choices: Mapping[str, Sequence[int]], rows: int, seed: int, **words: Any) -> int:
    """Holds random rows' seconds and peaks to each plan alone, and nan to its refusal; how many are known."""
    spec, random = calc.load_model(model), np.random.default_rng(seed)
    columns = {name: random.choice(sizes, rows).tolist() for name, sizes in choices.items()}
    found = step_times(spec, "h100-sxm", **columns, **words)
    known = 0
    for row in range(rows):
        plan = {name: column[row] for name, column in columns.items()}
        try:
            alone = predict(spec, "h100-sxm", **(plan | words))
        except Refused:
            assert np.isnan(found.seconds[row])
            continue
        known += 1
        assert found.seconds[row] == pytest.approx(alone.seconds, rel=1e-12)
        assert found.peak is not None
        assert found.peak[row] == pytest.approx(alone.memory.peak)
    return known
