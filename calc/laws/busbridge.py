"""Busbridge et al. 2025: the law of training without a teacher, beside which they set distillation."""

from __future__ import annotations

from typing import Any

from calc.laws.base import Constant, Equation, Frontier, Law
from calc.laws.parametric import Parametric
from calc.sizes import Size


def _form(k: Any) -> Parametric:
    return Parametric(k.E, k.A, k.B, k.alpha, k.beta, k.gamma)


def _frontier(k: Any) -> Frontier:
    return Frontier(*_form(k).frontier_terms())


def _loss(k: Any, n: Size, d: Size) -> Size:
    return _form(k).loss(n, d)


_FOLLOWS = "follows from L(N, D), whose power moves no optimum"

BUSBRIDGE = Law(
    name="busbridge",
    title="Busbridge et al. 2025, a sum of two powers to a power",
    equations=(
        Equation("loss", ("params", "tokens"), "the supervised law", _loss),
        Equation("params", ("compute",), _FOLLOWS, lambda k, c: _frontier(k).params(c)),
        Equation("tokens", ("compute",), _FOLLOWS, lambda k, c: _frontier(k).tokens(c)),
        Equation("loss", ("compute",), _FOLLOWS, lambda k, c: _frontier(k).loss(c)),
    ),
    constants=(
        Constant("E", 1.220, "nats/token", "from memory"),
        Constant("A", 3355.0, note="from memory"),
        Constant("B", 18186.0, note="from memory"),
        Constant("alpha", 0.408, note="from memory"),
        Constant("beta", 0.431, note="from memory"),
        Constant("gamma", 0.452, note="from memory"),
    ),
    params="parameters without embeddings (second-hand)",
    counts="non-embedding",
    compute="6 N D",
    tokens="tokens of a 32,000-entry vocabulary in English C4 (second-hand)",
    source="Distillation Scaling Laws, the supervised law (Busbridge et al. 2025, arXiv:2502.08606)",
    confirmed=(
        "constants from memory of the paper's appendix; they give 19 to 16 tokens a parameter at 1e20 to 1e23 FLOP, "
        "near the 20 it speaks of"
    ),
    second_hand="busbridge's constants are second-hand: not read in the paper itself",
    errata=(
        "The paper prints intervals of each constant that are far narrower than refits of such tables give; alone, "
        "without how the constants move together, they make no band.",
    ),
    valid={"params": (1.4e8, 1.26e10), "tokens": (2e9, 5.2e11)},
    parametric=_form,
    frontier=_frontier,
    uncertainty="the source prints intervals of each constant alone, which make no band",
)
