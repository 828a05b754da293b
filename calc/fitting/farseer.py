"""Farseer's surface: a floor that falls with N, and a power of D whose factor and exponent both depend on N.

Li et al. 2025, Predictable Scale: Part II, Farseer (arXiv:2506.10972). The equation is as known, its printed constants
are not confirmed: none are kept here. Each term is written with a positive factor, K = e^b of the paper's exponent.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from calc.fitting.fit import theta_of
from calc.fitting.forms import ALPHA, BETA, LN_A, LN_B, LN_E, Array
from calc.fitting.runs import Runs
from calc.fitting.templates import Template
from calc.laws.arithmetic import exp
from calc.laws.base import Constant, Equation, Law
from calc.sizes import Size

_SIGNS = ("K3", "a3", "gamma", "K2", "a2", "beta", "K1", "a1", "alpha")


def _loss(k: Any, n: Size, d: Size) -> Size:
    floor = k.K3 * exp(-k.a3 * n**k.gamma)
    exponent = k.K1 * exp(-k.a1 * n**k.alpha)
    return floor + k.K2 * exp(k.a2 * n**-k.beta) * d**-exponent


def _starts(inputs: Mapping[str, Array], loss: Array) -> list[dict[str, float]]:
    """Chinchilla's fit to the same runs, read as this form with several steepnesses of each of its three powers."""
    theta = theta_of(Runs(inputs["params"], inputs["tokens"], loss))
    low, middle, high = np.quantile(np.log(inputs["params"]), (0, 0.5, 1))
    sizes = np.exp(np.array([low, high]))
    beta, floor = max(theta[BETA], 0.05), np.exp(theta[LN_E])
    found = []
    for gamma, steep_b, steep_a, part in product((0.05, 0.2), (0.05, 0.2), (0.05, 0.2), (1.0, 0.5)):
        of_n = np.log(floor + part * np.exp(theta[LN_A] - theta[ALPHA] * np.log(sizes)))
        a3 = max((of_n[0] - of_n[1]) / np.ptp(sizes**gamma), 1e-6)
        a2, a1 = 0.5 / np.exp(-steep_b * middle), 0.1 / np.exp(steep_a * middle)
        found.append(
            {
                "K3": float(np.exp(of_n[0] + a3 * sizes[0] ** gamma)),
                "a3": float(a3),
                "gamma": gamma,
                "K2": float(np.exp(theta[LN_B] - 0.5)),
                "a2": float(a2),
                "beta": steep_b,
                "K1": float(beta * np.exp(0.1)),
                "a1": float(a1),
                "alpha": steep_a,
            }
        )
    return found


FARSEER = Template(
    Law(
        name="farseer",
        title="Farseer's surface, to be fitted",
        equations=(Equation("loss", ("params", "tokens"), "the equation as known, constants not confirmed", _loss),),
        constants=tuple(Constant(name, 1.0) for name in _SIGNS),
        params="parameters as in the runs' own column",
        counts="all",
        compute="6 N D",
        tokens="tokens as in the runs' own column",
        source="Li et al. (2025), Predictable Scale: Part II, Farseer (arXiv:2506.10972)",
        confirmed="the equation as known",
        valid={},
    ),
    "K3*exp(-a3*N**gamma) + K2*exp(a2*N**-beta)/D**(K1*exp(-a1*N**alpha))",
    _starts,
    optimum=True,
)
