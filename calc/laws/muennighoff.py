"""Muennighoff et al. 2023: what repeated tokens and surplus parameters are worth."""

from __future__ import annotations

import math
from typing import Any

from calc.errors import Refused
from calc.laws.arithmetic import exp
from calc.laws.base import Constant, Equation, Law
from calc.laws.common import chinchilla, frontier, parametric
from calc.sizes import Size, minimum


def worth(amount: Size, fresh: Size, half: Size) -> Size:
    """What `amount` is worth when only the first `fresh` of it is new: fresh (1 + half (1 - e^(-repeats / half)))."""
    first = minimum(fresh, amount)
    return first + first * half * (1 - exp(-(amount / first - 1) / half))


def amount(value: float, fresh: float, half: float) -> float:
    """How much is worth `value`, which is at least `fresh`: `worth` turned around.

    Errors: Refused for more than any number of repetitions is worth.
    """
    left = 1 - (value / fresh - 1) / half
    if left <= 0:
        raise Refused("tokens", f"fewer than {fresh * (1 + half):.4g}, which no repetition is worth more than", value)
    return fresh * (1 - half * math.log(left))


def _best_params(k: Any, d: Size) -> Size:
    """N for which D tokens are optimal."""
    line = frontier(k)
    return line.params(line.compute(tokens=d))


def _tokens(k: Any, d: Size, u: Size) -> Size:
    return worth(d, u, k.R_D)


def _params(k: Any, n: Size, u: Size) -> Size:
    return worth(n, _best_params(k, u), k.R_N)


def _loss(k: Any, n: Size, d: Size, u: Size) -> Size:
    return parametric(k).loss(_params(k, n, minimum(u, d)), _tokens(k, d, u))


MUENNIGHOFF = Law(
    name="muennighoff",
    title="Muennighoff et al. 2023, limited data",
    equations=(
        *chinchilla("equations 19 and 20"),
        Equation("params", ("unique_tokens",), "section 3.1, U_N", _best_params),
        Equation("effective_tokens", ("tokens", "unique_tokens"), "equation 5", _tokens),
        Equation("effective_params", ("params", "unique_tokens"), "equation 6", _params),
        Equation("loss", ("params", "tokens", "unique_tokens"), "equation 6", _loss),
    ),
    constants=(
        Constant("E", math.exp(0.6254804), "nats/token", "e^0.6254804"),
        Constant("A", math.exp(6.255414), note="e^6.255414"),
        Constant("B", math.exp(7.3049974), note="e^7.3049974"),
        Constant("alpha", 0.3526596),
        Constant("beta", 0.3526596, note="set equal to alpha"),
        Constant("R_D", 15.387756, "epochs"),
        Constant("R_N", 5.309743),
    ),
    params="all parameters, with embeddings",
    counts="all",
    compute="6 N D, every repetition counted",
    tokens="tokens of GPT-2's vocabulary in C4",
    source="Scaling Data-Constrained Language Models, eq. 5, 6, 16 to 20 (Muennighoff et al. 2023, arXiv:2305.16264)",
    confirmed="unrounded constants as in the authors' code, datablations",
    errata=(
        "Meant to be used relatively, repeated against fresh tokens: the base law rests on 54 runs on C4, with "
        "alpha = beta imposed.",
        "Runs in which further epochs made the loss worse were left out of the fit; past some 16 epochs expect less.",
    ),
    valid={"params": (7e6, 9e9), "tokens": (1e8, 9e11), "epochs": (1, 500)},
    parametric=parametric,
    frontier=frontier,
)
