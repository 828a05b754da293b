"""Ludziejewski et al. 2025: one law for dense models and mixtures of experts."""

from __future__ import annotations

from typing import Any

from calc.laws.arithmetic import exp, log
from calc.laws.base import Constant, Equation, Law
from calc.laws.clark import saturated
from calc.laws.parametric import Parametric
from calc.sizes import Size


def _of_experts(k: Any, experts: Size) -> Parametric:
    """The law at a number of experts: Chinchilla's form, with constants that depend on it (equation 6, table 4)."""
    e = saturated(k, experts)
    return Parametric(
        E=k.c,
        A=k.a * e**k.delta,
        B=k.b * e**k.omega,
        alpha=-(k.alpha + k.gamma * log(e)),
        beta=-(k.beta + k.zeta * log(e)),
    )


def _loss(k: Any, n: Size, d: Size, experts: Size) -> Size:
    return _of_experts(k, experts).loss(n, d)


def _learning_rate(k: Any, n: Size, experts: Size) -> Size:
    return exp(k.lr_0 - k.lr_N * log(n) - k.lr_E * log(experts))


LUDZIEJEWSKI = Law(
    name="ludziejewski",
    title="Ludziejewski et al. 2025, dense models and experts together",
    equations=(
        Equation("loss", ("params", "tokens", "experts"), "equation 6", _loss),
        Equation("effective_experts", ("experts",), "equation 4", saturated),
        Equation("learning_rate", ("params", "experts"), "equation 8, N without embeddings", _learning_rate),
    ),
    constants=(
        Constant("a", 35.91),
        Constant("alpha", -0.1889),
        Constant("delta", -0.2285),
        Constant("gamma", 0.0098),
        Constant("b", 35.98),
        Constant("beta", -0.1775),
        Constant("omega", 0.5529),
        Constant("zeta", -0.0259),
        Constant("E_start", 2.0732, "experts"),
        Constant("E_max", 290.4521, "experts"),
        Constant("c", 1.3637, "nats/token"),
        Constant("lr_0", 8.39, note="equation 8"),
        Constant("lr_N", 0.81, note="equation 8"),
        Constant("lr_E", 0.25, note="equation 8"),
    ),
    params="parameters that a token visits, with embedding and last layer (N_act)",
    counts="active",
    compute="6 N D, N the active parameters; routing is left out",
    tokens="tokens of GPT-2's vocabulary (50,257) in FineWeb-Edu",
    source="Joint MoE Scaling Laws, equations 4 and 6, table 3 (Ludziejewski et al. 2025, arXiv:2502.05172)",
    confirmed="constants as printed in table 3; they give every row of table 4 to 0.3 % and of table 1 to 2 %",
    errata=(
        "Experts are as large as the dense model's MLP and a token visits one; models whose tokens visit several small "
        "ones are read by their expansion, all experts over those that a token visits.",
        "E enters through E-hat of equation 4, which is Clark's: at one expert it is E_start, not 1.",
    ),
    valid={"params": (7.9e7, 2.7e9), "tokens": (5e8, 8e10), "experts": (1, 32), "tokens_per_param": (0.36, 74)},
    routing=("experts",),
    routed=_of_experts,
)
