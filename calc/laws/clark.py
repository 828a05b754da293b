"""Clark et al. 2022: loss of models with routed experts, all trained on 130B tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from calc.laws.arithmetic import log10
from calc.laws.base import Constant, Equation, Law
from calc.sizes import Size


def saturated(k: Any, e: Size) -> Size:
    """E-hat, the effective number of experts: at one expert E_start, and never more than E_max (equation 4)."""
    return 1 / (1 / (e - 1 + 1 / (1 / k.E_start - 1 / k.E_max)) + 1 / k.E_max)


def _loss(k: Any, n: Size, e: Size) -> Size:
    x, y = log10(n), log10(saturated(k, e))
    return 10 ** (k.a * x + k.b * y + k.c * x * y + k.d)


def _effective(k: Any, n: Size, e: Size) -> Size:
    """The dense model of the same loss: L(N_eff, 1) = L(N, E)."""
    one = log10(k.E_start)
    return 10 ** ((log10(_loss(k, n, e)) - k.d - k.b * one) / (k.a + k.c * one))


def _constants(a: float, b: float, c: float, d: float, start: float, most: float) -> tuple[Constant, ...]:
    return (
        Constant("a", a),
        Constant("b", b),
        Constant("c", c),
        Constant("d", d),
        Constant("E_start", start, "experts"),
        Constant("E_max", most, "experts"),
    )


CLARK_S_BASE = Law(
    name="clark-s-base",
    title="Clark et al. 2022, routed experts, Sinkhorn-BASE",
    equations=(
        Equation("loss", ("params", "experts"), "equation 1", _loss),
        Equation("effective_params", ("params", "experts"), "equation 11", _effective),
    ),
    constants=_constants(-0.082, -0.108, 0.009, 1.104, 1.847, 314.478),
    params="parameters of the dense model without the further experts",
    counts="all",
    compute="none: every model saw 130B tokens",
    tokens="tokens of a 32,000-entry SentencePiece vocabulary in MassiveText",
    source="Unified Scaling Laws for Routed Language Models, equation 1, table 3 (Clark et al. 2022, arXiv:2202.01169)",
    confirmed="constants as printed in table 3, to three digits; the runs are public",
    errata=(
        "Logarithms are to base 10.",
        "All models were stopped at 130B tokens, so large dense ones are undertrained and experts seem to stop paying "
        "at 937B (S-BASE); that bound is the token budget's.",
    ),
    valid={"params": (1.5e7, 1.3e9), "experts": (1, 512)},
)

CLARK_RL_R = replace(
    CLARK_S_BASE,
    name="clark-rl-r",
    title="Clark et al. 2022, routed experts, reinforcement learning",
    constants=_constants(-0.083, -0.126, 0.012, 1.111, 1.880, 469.982),
    variant_of="clark-s-base",
)

CLARK_HASH = replace(
    CLARK_S_BASE,
    name="clark-hash",
    title="Clark et al. 2022, routed experts, hash layers",
    constants=_constants(-0.087, -0.136, 0.012, 1.157, 4.175, 477.741),
    variant_of="clark-s-base",
)
