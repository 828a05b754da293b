"""What the charts of an optimum and of a loss show: the numbers of the answer, and of the law around it."""

from __future__ import annotations

import math
from typing import Any

import pytest

import calc
from calc.charts.losses import loss_chart, plane_chart
from calc.charts.optima import frontier_chart, isoflop_chart
from calc.charts.vega import Chart
from calc.errors import Refused
from calc.laws import find
from calc.optimum import Optimum, optimal, optimal_all


def layers(chart: Chart) -> list[list[dict[str, Any]]]:
    """The rows of each layer."""
    return [layer["data"]["values"] for layer in chart["layer"]]


def test_isoflop_curves_are_of_one_compute_each_and_lowest_at_the_optimum() -> None:
    answer = optimal(compute=1e22)
    curves, lowest, point, band = layers(isoflop_chart(compute=1e22))
    assert point == [{"params": answer.params, "loss": answer.loss}]
    assert len({row["compute"] for row in curves}) == 5
    own = [row for row in curves if row["compute"] == pytest.approx(1e22)]
    for row in own:
        assert 6 * row["params"] * row["tokens"] == pytest.approx(1e22)
        assert row["loss"] == pytest.approx(calc.loss(params=row["params"], tokens=row["tokens"]).loss)
        assert row["loss"] >= (answer.loss or 0) * (1 - 1e-12)
    assert min(row["params"] for row in own) < answer.params < max(row["params"] for row in own)
    assert [row["loss"] for row in lowest] == sorted((row["loss"] for row in lowest), reverse=True)
    assert (band[0]["params"], band[0]["high"]) == answer.interval["params"][1:]


def test_a_band_without_bound_ends_with_the_curves() -> None:
    curves, _, _, band = layers(isoflop_chart(loss=1.83))
    assert optimal(loss=1.83).interval["params"].high == math.inf
    assert band[0]["high"] == max(row["params"] for row in curves)


def test_isoflop_curves_of_a_family_with_few_tokens_go_through_its_answer() -> None:
    family = calc.load_model("llama-3-8b")
    answer = optimal(compute=1e22, family=family, unique_tokens=25e9)
    curves, lowest, *_ = layers(isoflop_chart(compute=1e22, family=family, unique_tokens=25e9))
    at = next(row for row in lowest if row["compute"] == pytest.approx(1e22))
    assert (at["params"], at["loss"]) == pytest.approx((answer.params, answer.loss))
    assert all(row["loss"] >= at["loss"] * (1 - 1e-9) for row in curves if row["compute"] == at["compute"])


def test_laws_without_a_loss_show_their_frontier() -> None:
    lines, points, _ = layers(isoflop_chart("hoffmann-2", compute=1e22))
    line = optimal("hoffmann-2", compute=lines[0]["compute"])
    assert lines[0]["params"] == pytest.approx(line.params)
    assert points[0]["params"] == optimal("hoffmann-2", compute=1e22).params
    answers = [answer for answer in optimal_all(compute=1e22) if isinstance(answer, Optimum)]
    assert [row["law"] for row in layers(frontier_chart(answers))[1]] == [answer.law for answer in answers]


@pytest.mark.parametrize(
    ("law", "more"), [("besiroglu", {}), ("kaplan", {}), ("pearce-song", {}), ("muennighoff", {"unique_tokens": 2e10})]
)
def test_lines_of_equal_loss(law: str, more: dict[str, float]) -> None:
    asked = {"params": 1e9, "tokens": 1e11, **more}
    contours, point, *frontier = layers(loss_chart(law, **asked))
    assert point == [{"params": 1e9, "tokens": 1e11}]
    for row in contours[::50]:
        at = {"params": row["params"], "tokens": row["tokens"], **more}
        assert calc.loss(law, **at).loss == pytest.approx(row["loss"], rel=1e-9)
    own = [row["tokens"] for row in contours if row["loss"] == pytest.approx(calc.loss(law, **asked).loss, rel=1e-12)]
    assert min(own) < 1e11 < max(own)
    assert own == sorted(own, reverse=True)
    assert bool(frontier) == (find(law).frontier is not None)


def test_a_loss_without_both_axes_has_no_chart() -> None:
    with pytest.raises(Refused, match="--chart: expected --params and --tokens"):
        loss_chart("kaplan", params=1e9)


def test_fitted_and_extrapolated_ranges_are_told_apart() -> None:
    curves = layers(isoflop_chart(compute=1e22))[0]
    assert {row["extrapolated"] for row in curves} == {True, False}
    law = find("besiroglu")
    for row in curves[::7]:
        at = {name: row[name] for name in ("compute", "params", "tokens")}
        assert row["extrapolated"] == bool(law.outside(**at))
    lines = layers(frontier_chart([optimal(compute=1e22)]))[0]
    assert {row["extrapolated"] for row in lines} == {True, False}


def test_bands_of_frontiers_are_those_of_the_answers() -> None:
    lines, points, wide = layers(frontier_chart([optimal(compute=1e22), optimal("llama-3", compute=1e22)]))
    assert {row["law"] for row in wide} == {"besiroglu"}
    for row in wide[::6]:
        known = optimal(compute=row["compute"]).interval["params"]
        assert (row["low"], row["high"]) == pytest.approx((known.low, known.high))
    assert len(points) == 2
    assert {row["law"] for row in lines} == {"besiroglu", "llama-3"}


def test_lines_of_equal_loss_are_fainter_beyond_the_law_s_runs() -> None:
    law, rows = find("besiroglu"), layers(loss_chart(params=5e9, tokens=2e11))[0]
    for row in rows[::40]:
        at = {"params": row["params"], "tokens": row["tokens"], "compute": 6 * row["params"] * row["tokens"]}
        assert row["extrapolated"] == bool(law.outside(**at))
    for piece in {row["piece"] for row in rows}:
        own = [row for row in rows if row["piece"] == piece]
        assert len({(row["loss"], row["extrapolated"]) for row in own}) == 1


def test_a_law_of_experts_has_its_chart() -> None:
    curves, *_ = layers(isoflop_chart("ludziejewski", compute=1e21, experts=8))
    assert all(row["loss"] > 1.36 for row in curves)
    plane = plane_chart("abnar", 1e10, 1e11, sparsity=0.9)
    assert "abnar" in str(plane)
