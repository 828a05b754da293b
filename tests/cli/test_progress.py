"""Progress: what is counted is counted to its end, and the last line that is shown says so."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calc
from calc.architectures.models import load_model
from calc.output.progress import Progress
from calc.plan.planning import search_plans
from calc.plan.serving import search_serving
from calc.plan.serving_plan import Slo, Wish
from tests.fitting.test_frontier import curves, isoflop_runs

WISH = Wish(load_model("gpt2"), ("h100-sxm",), (1, 4), 512, 64, Slo())
Told = Callable[[str, int, int], None]


def _points(tell: Told) -> Any:
    return calc.fit_isoflop(isoflop_runs(), refits=50, progress=tell)


def _curves(tell: Told) -> Any:
    return calc.fit_envelope(curves(np.geomspace(1e8, 1e10, 11)), refits=50, progress=tell)


def _plans(tell: Told) -> Any:
    return search_plans(WISH.spec, "dgx-h100", (8, 16), 1024, 2**16, progress=tell)


def _bands(tell: Told) -> Any:
    return calc.optimal("besiroglu", tell, compute=1e21, inference_tokens=1e12)


@pytest.mark.parametrize(
    "search",
    [_points, _curves, _plans, _bands, lambda tell: search_serving(WISH, tell)],
    ids=["isoflop", "envelope", "plans", "bands", "servers"],
)
def test_all_that_is_counted_is_done_in_the_end(search: Callable[[Told], Any]) -> None:
    ends: dict[str, tuple[int, int]] = {}

    def tell(what: str, done: int, total: int) -> None:
        ends[what.split("; ")[-1]] = done, total

    search(tell)
    assert ends
    assert all(done == total > 0 for done, total in ends.values())


def test_what_is_shown_unfinished_is_shown_finished(capsys: pytest.CaptureFixture[str]) -> None:
    """Sooner than another line would be due; and what is done before anybody waits is not shown."""
    progress = Progress()
    progress("quick", 3, 3)
    time.sleep(2.05)
    progress("pieces", 1, 3)
    progress("pieces", 2, 3)
    progress("pieces", 3, 3)
    progress("more", 2, 2)
    progress.close()
    assert capsys.readouterr().err.splitlines() == ["pieces: 1 of 3", "pieces: 3 of 3"]
