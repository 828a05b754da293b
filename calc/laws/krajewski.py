"""Krajewski et al. 2024: how finely experts should be cut."""

from __future__ import annotations

from typing import Any

from calc.laws.base import Constant, Equation, Law
from calc.laws.parametric import Parametric
from calc.sizes import Size

_TOTAL = (8 * 64 + 4) / 12
"""All parameters over the active ones at the expansion of every run, 64 (section 6.1)."""


def _of_granularity(k: Any, granularity: Size) -> Parametric:
    """The law at a granularity, of active parameters: all of them are _TOTAL times as many (equation 9)."""
    return Parametric(
        E=k.c,
        A=(k.g / granularity**k.gamma + k.a) / _TOTAL**k.alpha,
        B=k.b,
        alpha=k.alpha,
        beta=k.beta,
    )


def _loss(k: Any, n: Size, d: Size, granularity: Size) -> Size:
    return _of_granularity(k, granularity).loss(n, d)


KRAJEWSKI = Law(
    name="krajewski",
    title="Krajewski et al. 2024, 64 experts cut finer",
    equations=(Equation("loss", ("params", "tokens", "granularity"), "equation 9", _loss),),
    constants=(
        Constant("a", 18.1),
        Constant("alpha", 0.115),
        Constant("b", 30.8),
        Constant("beta", 0.147),
        Constant("g", 2.1),
        Constant("gamma", 0.58),
        Constant("c", 0.47, "nats/token"),
    ),
    params="parameters that a token visits, without embeddings; the paper's own N, all of them, is 43 times that",
    counts="active non-embedding",
    compute="6 N D, N the active parameters; the paper adds routing, 3 to 13 % in its table 2",
    tokens="tokens of C4 (whose vocabulary was not looked up)",
    source=(
        "Scaling Laws for Fine-Grained Mixture of Experts, equation 9, table 1 "
        "(Krajewski et al. 2024, arXiv:2402.07871)"
    ),
    confirmed="constants as printed in table 1; they give every loss of table 2 less 0.8 %",
    errata=(
        "All runs had an expansion of 64, so nothing is said of fewer or more experts.",
        "A floor of 0.47 and exponents of 0.12 and 0.15 are far below those of other laws: the fit decays its weights "
        "and lies low far beyond its runs.",
    ),
    valid={"params": (3e6, 8.6e7), "tokens": (1.6e10, 1.3e11), "granularity": (1, 16), "experts": (64, 64)},
    routing=("granularity",),
    routed=_of_granularity,
)
