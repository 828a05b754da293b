"""Fits of forms: recovery of what made the runs, published optima, derivatives, the closed form of the optimum."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import calc
from calc.errors import Refused
from calc.fitting import holdout, minimum
from calc.fitting.average import as_good_as_first, average, behind_first
from calc.fitting.forms import FORMS, Form, find
from calc.fitting.optimum import optimum_at
from calc.fitting.solver import Data, residuals
from tests import reference
from tests.fitting.surfaces import constants, grid, losses

each_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)


def chinchilla_runs() -> calc.Runs:
    """The points of Hoffmann et al.'s figure 4, less the five that its digitisers leave out."""
    path = reference.folder() / "scaling" / "runs" / "epoch_chinchilla.csv"
    return calc.read_runs(path, where=["notes!~outlier"])


@each_form
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_noise_free_runs_give_their_constants_back(form: Form, data: st.DataObject) -> None:
    theta = data.draw(constants(form))
    params, tokens = grid()
    runs = {"params": params, "tokens": tokens, "loss": losses(theta, params, tokens)}
    fit = calc.fit(runs, form.name, refits=0)
    assert fit.predict(params, tokens) == pytest.approx(runs["loss"], rel=1e-6)
    expected = form.publish(theta)
    assert fit.constants == pytest.approx({name: float(value) for name, value in expected.items()}, rel=1e-4)
    assert fit.optimum is not None


@pytest.mark.parametrize("objective", ["huber", "lad", "squares"])
def test_every_objective_recovers(objective: str) -> None:
    theta = np.array([math.log(400), 0.34, math.log(2000), 0.37, math.log(1.8), 0.0])
    params, tokens = grid()
    fit = calc.fit(
        {"N": params, "D": tokens, "L": losses(theta, params, tokens)}, refits=0, objective=objective, compute=1e21
    )
    assert fit.constants == pytest.approx({"A": 400, "B": 2000, "E": 1.8, "alpha": 0.34, "beta": 0.37}, rel=1e-4)
    assert fit.columns == {"params": "N", "tokens": "D", "loss": "L"}


@each_form
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_derivatives_are_those_of_the_residuals(form: Form, data: st.DataObject) -> None:
    moving = form.moving(data.draw(constants(form)))[None]
    params, tokens = grid(4, 4)
    runs = Data.of(params, tokens, np.full(params.size, 2.5))
    moving = form.moving(runs.centred(form.full(moving)))
    _, jacobian = residuals(form, runs, moving)
    for column in range(len(form.free)):
        step = np.zeros_like(moving)
        step[0, column] = 1e-6
        ahead, behind = (residuals(form, runs, moving + sign * step)[0] for sign in (1, -1))
        assert jacobian[:, column] == pytest.approx((ahead - behind) / 2e-6, rel=1e-4, abs=1e-8)


@each_form
@settings(max_examples=25, deadline=None)
@given(data=st.data(), compute=st.floats(1e18, 1e24))
def test_the_optimum_in_closed_form_is_the_least_loss(form: Form, data: st.DataObject, compute: float) -> None:
    theta = data.draw(constants(form))
    best = optimum_at(theta[None], compute)
    sizes = best.params * np.geomspace(0.5, 2, 2001)
    along = losses(theta, sizes, compute / (6 * sizes))
    assert sizes[along.argmin()] == pytest.approx(best.params[0], rel=2e-3)
    assert along.min() == pytest.approx(best.loss[0], rel=1e-9)
    assert 6 * best.params[0] * best.tokens[0] == pytest.approx(compute, rel=1e-12)
    more = optimum_at(theta[None], compute * math.e)
    assert math.log(more.params[0] / best.params[0]) == pytest.approx(best.exponent[0], rel=1e-9)


@each_form
def test_equations_say_what_is_computed(form: Form) -> None:
    import sympy

    theta = np.array([math.log(30.0), 0.3, math.log(50.0), 0.4, math.log(1.7), math.log(0.8)])
    moving = form.moving(theta)
    full = form.full(moving)
    published = {name: float(value) for name, value in form.publish(full).items()}
    letters = {name: sympy.Symbol(name, positive=True) for name in (*published, "N", "D")}
    formula = sympy.sympify(form.equation, locals=letters)
    assert formula.free_symbols <= set(letters.values())
    value = formula.subs({letters[name]: number for name, number in {**published, "N": 1e8, "D": 1e9}.items()})
    assert float(value) == pytest.approx(float(losses(full, np.array(1e8), np.array(1e9))), rel=1e-12)


def test_published_laws_stand_for_their_form() -> None:
    assert find("besiroglu") is find("hoffmann-3") is find("chinchilla")
    from calc import laws

    for form in FORMS:
        for alias in form.aliases:
            assert laws.find(alias).parametric is not None
    with pytest.raises(Refused, match="law: expected one of chinchilla"):
        find("nonsense")


def golden(number: int) -> Any:
    import json

    rows = json.loads((reference.folder() / "scaling" / "golden.json").read_text())
    return next(row for row in rows if row["id"] == number)


@pytest.mark.parametrize(("number", "objective"), [(18, "huber"), (19, "lad")])
def test_the_chinchilla_points_give_the_published_constants(number: int, objective: str) -> None:
    row = golden(number)
    fit = calc.fit(chinchilla_runs(), objective=objective, refits=0)
    assert fit.rows == 240
    found = [fit.constants[name] for name in ("A", "B", "E", "alpha", "beta")]
    assert found == pytest.approx(row["expected"], rel=row["rtol"])
    assert fit.agreeing == fit.starts == 27
    if objective == "huber":
        assert fit.objective == pytest.approx(0.0010182740178, rel=1e-9)


def test_every_start_that_agrees_is_at_the_optimum() -> None:
    runs = chinchilla_runs()
    form, aim = find("chinchilla"), minimum.OBJECTIVES["huber"]
    data = Data.of(runs.params, runs.tokens, runs.loss)
    best = minimum.best(form, data, aim)
    evaluate, everything = partial(residuals, form, data), np.ones((1, len(runs)))
    solved = minimum.carry(evaluate, minimum.starts(form, data), everything, aim.delta)
    agree = np.abs(solved.objective / best.objective - 1) < 1e-9
    assert agree.sum() == best.agreeing
    plain = data.plain(form.full(solved.moving[agree]))
    assert np.exp(plain[:, 0]) == pytest.approx(477.826, rel=3e-5)
    # At a minimum no direction falls: the slopes of all runs, each at most delta, sum to zero.
    error, jacobian = residuals(form, data, solved.moving[agree])
    slope = (jacobian * np.clip(error, -1e-3, 1e-3)[:, None]).sum(axis=2)
    assert np.abs(slope).max() < 1e-9


def test_the_bootstrap_is_as_wide_as_the_published_one() -> None:
    row = golden(21)
    fit = calc.fit(chinchilla_runs(), compute=5.76e23)
    # Standard errors there; of a normal distribution 95 % are 3.92 of them wide. B is skewed and left out.
    for name, error in zip(("A", "E", "alpha", "beta"), np.array(row["expected"])[[0, 2, 3, 4]], strict=True):
        interval = fit.intervals[name]
        assert interval is not None
        assert interval.high - interval.low == pytest.approx(3.92 * error, rel=0.15)
    ratio = fit.intervals["tokens_per_param"]
    assert ratio is not None
    # Besiroglu et al. (2024): 18.4 tokens a parameter for Chinchilla's budget, 95 % in about 7 to 35.
    assert (ratio.low, ratio.high) == pytest.approx((7, 35), rel=0.08)
    assert fit.optimum is not None
    assert fit.optimum["tokens_per_param"] == pytest.approx(18, rel=0.03)


def test_the_bootstrap_depends_on_the_seed_alone() -> None:
    params, tokens = grid()
    random = np.random.default_rng(1)
    theta = np.array([math.log(400), 0.34, math.log(2000), 0.37, math.log(1.8), 0.0])
    runs = {"N": params, "D": tokens, "L": losses(theta, params, tokens) * np.exp(random.normal(0, 0.01, 36))}
    one, same, other = (calc.fit(runs, refits=50, seed=seed).intervals for seed in (0, 0, 1))
    assert one == same != other


def test_very_many_runs_are_drawn_from_the_normal_limit() -> None:
    """Of as many runs as are still refitted, the intervals are the same either way."""
    from calc.fitting import bootstrap

    random = np.random.default_rng(2)
    params, tokens = 10 ** random.uniform(7, 10, 3000), 10 ** random.uniform(8.5, 11.5, 3000)
    theta = np.array([math.log(400), 0.34, math.log(2000), 0.37, math.log(1.8), 0.0])
    loss = losses(theta, params, tokens) * np.exp(random.normal(0, 0.01, 3000))
    form, aim = find("chinchilla"), minimum.OBJECTIVES["huber"]
    data = Data.of(params, tokens, loss)
    best = minimum.best(form, data, aim)
    refitted = form.moving(data.centred(bootstrap.refits(form, best.moving, data, aim.delta, 300, 0, None)))
    drawn = bootstrap.normal(partial(residuals, form, data), best.moving, aim.delta, 4000, 0)
    assert drawn.std(axis=0) == pytest.approx(refitted.std(axis=0), rel=0.2)
    assert drawn.mean(axis=0) == pytest.approx(best.moving, abs=0.01)


def test_tournament_ranks_by_the_largest_compute_held_out() -> None:
    theta = np.array([math.log(2e3), 0.45, math.log(8e3), 0.45, math.log(1.7), math.log(0.75)])
    params, tokens = grid()
    runs = {"N": params, "D": tokens, "L": losses(theta, params, tokens)}
    ranked = calc.tournament(runs, refits=0)
    assert sorted(fit.law for fit in ranked) == sorted(form.name for form in FORMS)
    assert ranked[0].law == "free-k"
    errors = [fit.held_out.rms for fit in ranked if fit.held_out]
    assert errors == sorted(errors)
    assert errors[0] < 1e-6 < errors[1]
    held = ranked[0].held_out
    assert held is not None
    # From the middle of 36 runs on; the first of a budget's runs is where a part begins.
    six_nd = np.sort(6 * params * tokens)
    assert held.compute <= six_nd[18] * 1.001
    assert held.runs == (six_nd >= held.compute).sum()
    assert held.folds == 4
    assert as_good_as_first(ranked) == ranked[:1]


def test_parts_are_predicted_by_what_is_cheaper() -> None:
    """Each part's errors are those of a fit to the runs below it, found by themselves; budgets are not cut in two."""
    runs = chinchilla_runs()
    form, aim = find("chinchilla"), minimum.OBJECTIVES["huber"]
    fit = calc.fit(runs, refits=0)
    held = fit.held_out
    assert held is not None
    found = holdout.parts(runs.six_nd)
    assert [part.size for part in found] == np.bincount(held.fold).tolist()
    assert sum(part.size for part in found) >= 120
    for fold, part in enumerate(found):
        before = runs.where(runs.six_nd < runs.six_nd[part].min())
        own = calc.fit(before, refits=0)
        error = np.log(own.predict(runs.params[part], runs.tokens[part])) - np.log(runs.loss[part])
        assert held.errors[held.fold == fold] == pytest.approx(error, abs=1e-4)
    assert holdout.parts(np.arange(1.0, 9.0)) == []
    budgets = np.repeat([1e18, 1e19, 1e20, 1e21], 6)
    assert all(np.unique(budgets[part]).size * 6 == part.size for part in holdout.parts(budgets))
    assert holdout.held_out(form, runs.where(np.arange(5)), aim) is None


def test_forms_that_cannot_be_told_apart_share_their_optimum() -> None:
    """Runs of one exponent: chinchilla and equal-exponents are both right, kaplan is not."""
    theta = np.array([math.log(1000), 0.36, math.log(2500), 0.36, math.log(1.8), 0.0])
    params, tokens = grid(8, 8)
    noise = np.exp(np.random.default_rng(4).normal(0, 0.004, 64))
    fits = calc.tournament({"N": params, "D": tokens, "L": losses(theta, params, tokens) * noise}, refits=200)
    alike = [fit.law for fit in as_good_as_first(fits)]
    assert {"chinchilla", "equal-exponents"} <= set(alike)
    assert "kaplan" not in alike
    both = average(fits)
    assert both is not None
    assert both.forms == tuple(alike)
    own = [fit.optimum["params"] for fit in fits if fit.law in alike and fit.optimum]
    assert both.optimum["params"] == pytest.approx(np.exp(np.mean(np.log(own))))
    band, single = both.intervals["params"], [fit.intervals["params"] for fit in fits if fit.law in alike]
    assert band is not None
    assert band.low <= max(each.low for each in single if each)
    assert band.high >= min(each.high for each in single if each)
    places = behind_first(fits)
    assert places[0] is not None
    assert places[0].gap == 0
    assert average(fits[:1]) is None
