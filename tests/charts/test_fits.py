"""What the charts of fits show: the runs, the fitted frontier with its band, and where it is extrapolated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calc
from calc.charts.fits import fit_chart, frontier_chart
from calc.fitting.isoflop import fit_isoflop
from tests.fitting.coverage import isoflop, ladder
from tests.fitting.surfaces import losses

THETA = np.array([6.17, 0.348, 7.64, 0.366, 0.597, 0.0])


def table(design: tuple[Any, Any]) -> dict[str, Any]:
    noise = np.random.default_rng(3).normal(0, 0.003, design[0].size)
    return {"N": design[0], "D": design[1], "L": losses(THETA, *design) * np.exp(noise)}


def layers(chart: dict[str, Any]) -> list[list[dict[str, Any]]]:
    return [layer["data"]["values"] for layer in chart["layer"]]


def test_the_frontier_reaches_the_asked_compute_with_its_band() -> None:
    """At that compute line and band are the answer and its interval; what is beyond the runs says so."""
    fit = calc.fit(table(isoflop()), refits=400, compute=1e23)
    _, _, line, area, asked = layers(fit_chart(fit))
    assert fit.optimum
    band = fit.intervals["loss"]
    assert band
    assert line[-1]["compute"] == pytest.approx(1e23)
    assert line[-1]["loss"] == asked[0]["loss"] == pytest.approx(fit.optimum["loss"])
    assert (area[-1]["least"], area[-1]["most"]) == pytest.approx((band.low, band.high))
    highest = fit.runs.six_nd.max()
    assert all(row["compute"] >= highest for row in line if row["extrapolated"])
    assert all(row["compute"] <= highest for row in line if not row["extrapolated"])
    within = calc.fit(table(isoflop()), refits=0)
    assert not any(row["extrapolated"] for row in layers(fit_chart(within))[2])


def test_a_ladder_has_its_line() -> None:
    fit = calc.fit(table(ladder(12, (20,))), refits=200, compute=1e22)
    line = layers(fit_chart(fit))[2]
    size = (1e22 / 120) ** 0.5
    assert line[-1]["loss"] == pytest.approx(fit.predict(size, 20 * size))
    assert line[-1]["extrapolated"]


def test_isoflop_marks_the_size_that_is_asked_for() -> None:
    fit = fit_isoflop(table(isoflop()), refits=200, compute=1e23)
    *_, rule, band = layers(frontier_chart(fit))
    known = fit.intervals["params"]
    assert known
    assert rule == [{"params": fit.optimum["params"]}]
    assert (band[0]["params"], band[0]["high"]) == (known.low, known.high)
