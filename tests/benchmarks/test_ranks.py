"""How far measured collectives and steps of two ranks are from their forecasts, on the machine at hand."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import pytest

from harness.store import scan
from tests.harness.ranks.started import torchrun

pytestmark = pytest.mark.slow
PATIENCE = 540
"""Seconds, against hanging for ever: less than a test may take in all."""


@pytest.mark.benchmark(group="suites of two ranks: collectives within 25 % of their forecasts, steps within 15 %")
@pytest.mark.parametrize("suite", ["collectives", "parallel"])
def test_forecasts_of_two_ranks(benchmark: Any, suite: str, tmp_path: Path) -> None:
    if benchmark.disabled:  # ten minutes, of which all but the times is asked in tests/harness/ranks
        pytest.skip("nobody reads its times among other tests")
    arguments = ("-m", "harness", "run", "--suite", suite, "--results", str(tmp_path))
    benchmark.pedantic(torchrun, arguments, {"patience": PATIENCE}, rounds=1)
    runs = [run for run in scan(tmp_path)[0] if run.measurement is not None and run.forecast is not None]
    assert runs
    errors = {run.case: run.measurement.seconds / run.forecast.seconds - 1 for run in runs}  # pyright: ignore
    benchmark.extra_info |= {"median error": median(map(abs, errors.values())), **errors}
    for case, error in errors.items():
        print(f"{error:+.1%} {case}")
