"""Approaches 1 and 2: optima inside the sizes, refusals of those that are not, power laws through them."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import calc
from calc.errors import Refused
from calc.fitting.optimum import optimum_at
from tests import reference
from tests.fitting.surfaces import losses

THETA = np.array([math.log(400), 0.35, math.log(400), 0.35, math.log(1.8), 0.0])
"""A = B and alpha = beta: N = D = (C / 6)^(1/2) at the optimum."""


def isoflop_runs(spread: float = 4.0, off: float = 1.0) -> dict[str, np.ndarray]:
    """Nine sizes at each of five budgets, around `off` times the optimum."""
    computes = np.repeat(np.geomspace(1e18, 1e20, 5), 9)
    params = np.sqrt(computes / 6) * off * np.tile(np.geomspace(1 / spread, spread, 9), 5)
    tokens = computes / (6 * params)
    return {"params": params, "tokens": tokens, "loss": losses(THETA, params, tokens), "flops": computes}


def test_isoflop_recovers_a_symmetric_law() -> None:
    fit = calc.fit_isoflop(isoflop_runs(), refits=100, compute=6e22)
    assert fit.constants == pytest.approx({"N_0": 6**-0.5, "a": 0.5, "D_0": 6**-0.5, "b": 0.5}, rel=1e-6)
    assert fit.optimum == pytest.approx({"params": 1e11, "tokens": 1e11, "tokens_per_param": 1}, rel=1e-6)
    assert len(fit.budgets) == 5
    assert fit.columns["flops"] == "flops"
    for budget in fit.budgets:
        assert budget.loss == pytest.approx(float(optimum_at(THETA[None], budget.compute).loss[0]), rel=2e-3)


def test_a_minimum_that_is_not_interior_is_refused() -> None:
    runs = isoflop_runs()
    last = np.arange(45) >= 36
    runs["params"] = np.where(last, runs["params"] * 20, runs["params"])
    runs["tokens"] = runs["flops"] / (6 * runs["params"])
    runs["loss"] = losses(THETA, runs["params"], runs["tokens"])
    fit = calc.fit_isoflop(runs, refits=0)
    assert len(fit.budgets) == 4
    assert "the budget of 1e+20 FLOP is left out: a parabola with its lowest point beyond its sizes" in fit.warnings
    with pytest.raises(Refused, match="an optimum inside the sizes at two budgets or more"):
        calc.fit_isoflop(isoflop_runs(off=30))


def test_runs_of_no_common_compute_are_refused() -> None:
    random = np.random.default_rng(0)
    params, tokens = np.geomspace(1e7, 1e10, 8), np.geomspace(1e9, 1e11, 8)
    with pytest.raises(Refused, match="8 of 8 runs belong to no budget"):
        calc.fit_isoflop({"params": params, "tokens": tokens, "loss": random.uniform(2, 3, 8)})


def test_computes_that_wrapped_around_are_refused_and_can_be_computed() -> None:
    runs = isoflop_runs()
    wrapped = runs | {"flops": -runs["flops"]}
    with pytest.raises(Refused, match=r"row 1, flops: expected a positive number .*--flops 6ND"):
        calc.fit_isoflop(wrapped)
    computed = calc.fit_isoflop(wrapped, columns={"flops": "6ND"}, refits=0)
    assert computed.constants == pytest.approx(calc.fit_isoflop(runs, refits=0).constants, rel=1e-12)
    # A form needs no FLOP: its fit does not read them.
    assert "flops" not in calc.fit(wrapped, refits=0).columns


def curves(sizes: np.ndarray) -> dict[str, np.ndarray]:
    """Training curves of 60 points, each from a tenth to ten times one token a parameter."""
    params = np.repeat(sizes, 60)
    tokens = params * np.tile(np.geomspace(0.02, 50, 60), len(sizes))
    names = np.repeat([f"run{i}" for i in range(len(sizes))], 60)
    return {"params": params, "tokens": tokens, "loss": losses(THETA, params, tokens), "run": names}


def test_the_envelope_of_training_curves_recovers_a_symmetric_law() -> None:
    fit = calc.fit_envelope(curves(np.geomspace(1e8, 1e10, 41)), refits=50)
    assert fit.constants["a"] == pytest.approx(0.5, abs=0.02)
    assert fit.constants["b"] == pytest.approx(0.5, abs=0.02)
    assert fit.optimum["tokens_per_param"] == pytest.approx(1, rel=0.15)
    interval = fit.intervals["a"]
    assert interval is not None
    assert interval.low < 0.5 < interval.high
    sizes = {round(budget.params) for budget in fit.budgets}
    assert not sizes & {10**8, 10**10}  # the outermost sizes win nothing: the best could lie beyond them


def test_final_losses_alone_are_no_training_curves() -> None:
    with pytest.raises(Refused, match="training curves, of two points or more"):
        calc.fit_envelope(isoflop_runs() | {"run": np.arange(45).astype(str)})
    with pytest.raises(Refused, match="a column of runs"):
        calc.fit_envelope(isoflop_runs())


def test_chinchilla_points_by_approach_2() -> None:
    """Hoffmann et al. (2022), table 2: exponents of approach 2 are 0.49 (0.462, 0.534) and 0.51 (0.483, 0.529)."""
    path = reference.folder() / "scaling" / "runs" / "epoch_chinchilla.csv"
    fit = calc.fit_isoflop(path, where=["notes!~outlier"])
    assert 0.462 < fit.constants["a"] < 0.534
    assert 0.466 < fit.constants["b"] < 0.529
    interval = fit.intervals["a"]
    assert interval is not None
    assert interval.low < 0.49 < interval.high


def test_the_bias_of_a_grid_is_said() -> None:
    """Far off the middle of a valley a parabola's lowest point lies off the loss's own; in the middle it does not."""
    lopsided = calc.fit_isoflop(isoflop_runs(spread=16, off=4), refits=0)
    middle = calc.fit_isoflop(isoflop_runs(spread=4), refits=0)
    said = [next(w for w in fit.warnings if w.startswith("on these sizes parabolas")) for fit in (lopsided, middle)]
    off = [float(re.search(r"put N ([-+]\d+\.\d)% off", text)[1]) for text in said]  # pyright: ignore[reportOptionalSubscript]
    truth = math.sqrt(1e20 / 6)
    found = lopsided.constants["N_0"] * 1e20 ** lopsided.constants["a"]
    assert off[0] == pytest.approx(100 * (found / truth - 1), abs=0.3)
    assert abs(off[0]) > 5
    assert abs(off[1]) < 0.2
