"""Published equations fitted to runs: every law that predicts a loss gives its constants back from its own losses."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import calc
from calc.errors import Refused
from calc.laws import LAWS, Equation, Law

LEVELS = {
    "params": np.geomspace(1e7, 1e10, 5),
    "tokens": np.geomspace(3e8, 3e11, 5),
    "unique_tokens": np.geomspace(1e8, 1e11, 5),
    "experts": np.array([1.0, 4.0, 16.0, 64.0, 512.0]),
    "granularity": np.array([1.0, 2.0, 4.0, 8.0, 16.0]),
    "sparsity": np.array([0.1, 0.5, 0.75, 0.9, 0.98]),
    "steps_min": np.geomspace(1e3, 1e6, 5),
    "compute": np.geomspace(1e18, 1e23, 25),
    "compute_min": np.geomspace(1e18, 1e23, 25),
    "compute_naive": np.geomspace(1e18, 1e23, 25),
    "bits_weights": np.array([2.0, 4.0, 8.0]),
    "bits_activations": np.array([2.0, 4.0, 8.0]),
    "bits_post": np.array([2.0, 3.0, 4.0, 6.0]),
    "bits_cache": np.array([2.0, 4.0, 8.0]),
}
"""A design of full rank: every level of an input with every level of the others."""

CASES = [
    pytest.param(law, equation, id=f"{law.name}-{'-'.join(equation.takes)}")
    for law in LAWS
    for equation in law.equations
    if equation.gives == "loss"
]


def design(equation: Equation) -> dict[str, np.ndarray]:
    rows = np.array(list(product(*(LEVELS[what] for what in equation.takes))))
    return dict(zip(equation.takes, rows.T, strict=True))


@pytest.mark.parametrize(("law", "equation"), CASES)
def test_a_law_is_recovered_from_its_own_losses(law: Law, equation: Equation) -> None:
    """Made with every constant up to a tenth off what is published, so that a fit has to find them."""
    inputs = design(equation)
    random = np.random.default_rng(3)
    made: dict[str, Any] = {name: value * np.exp(random.uniform(-0.1, 0.1)) for name, value in vars(law.k).items()}
    loss = equation.rule(SimpleNamespace(**made), *inputs.values())
    fit = calc.fit_law({**inputs, "loss": loss}, law.name, refits=0)
    assert fit.equation.takes == equation.takes
    assert fit.predict(**inputs) == pytest.approx(loss, rel=1e-6)
    known = {name: value for name, value in fit.constants.items() if value is not None}
    assert known == pytest.approx({name: made[name] for name in known}, rel=1e-4)
    # Along its own frontier a law of two terms is fewer constants than it has; everything else here is told.
    frontier = equation.takes in (("compute",), ("compute_min",), ("compute_naive",)) and law.name != "kaplan"
    assert (len(known) < len(fit.constants)) == frontier
    assert any("these runs do not determine" in warning for warning in fit.warnings) == frontier


def test_inputs_are_found_by_their_names_and_missing_ones_named() -> None:
    inputs = design(Equation("loss", ("params", "tokens", "unique_tokens"), "", lambda k, *x: k))
    loss = 1.9 + 500 / inputs["params"] ** 0.35 + 1500 / inputs["tokens"] ** 0.35
    columns = {"N": inputs["params"], "D": inputs["tokens"], "loss": loss}
    assert calc.fit_law(columns, "muennighoff", refits=0).columns == {"params": "N", "tokens": "D", "loss": "loss"}
    fit = calc.fit_law({**columns, "unique tokens": inputs["unique_tokens"]}, "muennighoff", refits=50)
    assert fit.columns["unique_tokens"] == "unique tokens"
    with pytest.raises(Refused, match="expected columns of loss and of params, experts, found columns N, D, loss"):
        calc.fit_law(columns, "clark-s-base")
    with pytest.raises(Refused, match="expected a law that predicts a loss, found step-law"):
        calc.fit_law(columns, "step-law")
    with pytest.raises(Refused, match="runs: expected at least 4"):
        calc.fit_law({name: values[:2] for name, values in columns.items()}, "gadre")
