"""Bands of everything that is worked out from a law: they hold the answer, and are the draws' own answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calc
from calc.laws import find
from calc.laws.uncertainty import draws
from calc.optimum import judge, optimal
from calc.optimum.bands import bands
from calc.optimum.costs import of_family
from calc.optimum.search import Problem

LLAMA = calc.load_model("llama-3-8b")


def percentiles(values: list[float]) -> tuple[float, ...]:
    return tuple(np.percentile(values, [2.5, 97.5]))


@pytest.mark.parametrize(
    "beyond",
    [
        {"inference_tokens": 1e12},
        {"unique_tokens": 2.5e10},
        {"unique_tokens": 2.5e10, "inference_tokens": 1e12},
        {"family": LLAMA, "seq": 4096},
    ],
    ids=["use", "data", "both", "family"],
)
def test_every_question_has_a_band(beyond: dict) -> None:
    answer = optimal(compute=1e22, **beyond)
    for name in ("params", "tokens", "loss", "tokens_per_param"):
        band = answer.interval[name]
        assert band.low < getattr(answer, name) < band.high
        assert band.high < 3 * band.low
    assert answer.interval_source.startswith("one data set's sampling")
    assert ("epochs" in answer.interval) == ("unique_tokens" in beyond)
    assert ("cost_ratio" in answer.interval) == ("inference_tokens" in beyond)
    assert optimal("muennighoff", compute=1e22, unique_tokens=1e10).interval == {}


def test_a_band_is_that_of_the_draws_own_answers() -> None:
    """Each draw asked for itself, as if it were a law."""
    law = find("besiroglu")
    found = []
    for k in list(draws("besiroglu_bootstrap.csv"))[::5]:
        own = Problem(law, unique_tokens=2.5e10, constants=k)
        x, _ = own.best(1e22)
        found.append(x)
    band = optimal(compute=1e22, unique_tokens=2.5e10).interval["params"]
    assert (band.low, band.high) == pytest.approx(percentiles(found), rel=1e-9)


def test_a_tabulated_family_is_the_family() -> None:
    costs = of_family(LLAMA, 8192, "all")
    table = costs.tabulated()
    for x in (0.03, 0.2, 1.0, 3.3, 40.0):
        for name in ("size", "train", "use"):
            assert getattr(table, name)(x) == pytest.approx(getattr(costs, name)(x), rel=2e-3)
    problem = Problem(find("besiroglu"), costs)
    one = replace(problem, costs=table).best(1e22)
    assert one == pytest.approx(problem.best(1e22), rel=5e-3)


def test_a_judgement_has_bands_of_its_payback() -> None:
    for found in (judge(LLAMA, 15e12), judge(LLAMA, 15e12, seq=8192)):
        for name in ("past", "loss", "loss_gap", "best_params", "saving", "break_even"):
            band = found.interval[name]
            assert band.low < getattr(found, name) < band.high
    assert judge(LLAMA, 15e12, "hoffmann-3").interval == {}


def test_what_is_given_and_laws_without_draws_have_no_band() -> None:
    assert "compute" not in optimal(compute=1e22, unique_tokens=1e10).interval
    assert bands(Problem(find("hoffmann-3")), lambda problem: {"k": problem.k.A}) == {}


@pytest.mark.parametrize(("law", "centre"), [("hoffmann-1", 1.34e20), ("hoffmann-2", 1.34e20), ("porian", 5.66e17)])
def test_bands_of_exponents_turn_about_the_middle_of_the_budgets(law: str, centre: float) -> None:
    """There N is what the law says, and far off it is as the ends of the exponent have it; 80 % are 1.5 times as narrow
    as 95 %."""
    entry = find(law)
    of = entry.exponent
    assert of
    near = optimal(law, compute=centre).interval["params"]
    assert near.high / near.low == pytest.approx(1, abs=0.01)
    far = optimal(law, compute=centre * 1e4)
    wide = far.interval["params"]
    edge = 1.0 if of.share == 0.95 else 1.95996 / 1.28155
    assert wide.high / far.params == pytest.approx(1e4 ** (edge * (of.high - entry.k.a)), rel=0.01)
    assert far.params / wide.low == pytest.approx(1e4 ** (edge * (entry.k.a - of.low)), rel=0.01)
    assert wide.low * far.interval["tokens"].high == pytest.approx(centre * 1e4 / 6, rel=1e-6)
