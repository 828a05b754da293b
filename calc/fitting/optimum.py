"""The compute-optimal run of a fitted form."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from calc.fitting.forms import Array
from calc.laws import Frontier, Parametric

CONVENTION = "C = 6*N*D, N as in the runs' own column"


class Optimum(NamedTuple):
    """Sizes and loss for a compute in FLOP, of shape (sets of constants,). exponent: N grows as compute to it."""

    params: Array
    tokens: Array
    loss: Array
    exponent: Array


def optimum_at(theta: Array, compute: float) -> Optimum:
    """Where the loss of each set of constants, shape (sets, 6), is least at 6 N D = compute; NaN where it is nowhere.

    Along 6 N D = C the loss is least where A / N^alpha + B / D^beta is, whatever k and E are: the closed form of
    `calc.laws`. With alpha or beta at or below zero there is no minimum.
    """
    ln_a, alpha, ln_b, beta, ln_e, ln_k = np.moveaxis(theta, -1, 0)
    with np.errstate(all="ignore"):
        alpha, beta = (np.where(exponent > 0, exponent, np.nan) for exponent in (alpha, beta))
        terms = Parametric(E=0.0, A=np.exp(ln_a), B=np.exp(ln_b), alpha=alpha, beta=beta)
        line = Frontier(*terms.frontier_terms())
        loss = np.exp(ln_e) + line.loss(compute) ** np.exp(ln_k)
        return Optimum(line.params(compute), line.tokens(compute), loss, line.a)
