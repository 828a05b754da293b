"""Hoffmann et al. 2022 (Chinchilla): three approaches to one question."""

from __future__ import annotations

import math
from dataclasses import replace

from calc.laws.base import Constant, Exponent, Law
from calc.laws.common import chinchilla, frontier, parametric, power_frontier, power_laws

_PAPER = "Training Compute-Optimal Large Language Models"
_YEAR = "(Hoffmann et al. 2022, arXiv:2203.15556)"
_A4 = (
    "Its table A4 of detailed FLOPs over 6 N D comes out only without embedding and logit FLOPs and with N that holds "
    "tied embedding and relative-position weights."
)
_CENTRE = math.sqrt(6e18 * 3e21)
_EXPONENT = (
    "one data set's sampling, of the exponent alone: table 2's 80 % of bootstraps as a normal, about 1.3e20 FLOP, the "
    "middle of its budgets; what the factor adds is not printed"
)


def _through(small: tuple[float, float, float], large: tuple[float, float, float]) -> tuple[Constant, ...]:
    """Power laws through two rows (N, C, D) of a table, the smallest and the largest, which fix them best."""
    span = math.log(large[1] / small[1])
    a = math.log(large[0] / small[0]) / span
    b = 1 - a
    n = math.sqrt(small[0] / small[1] ** a * large[0] / large[1] ** a)
    ends = "through the first and last row of the table; table 2 prints it rounded"
    return (
        Constant("n", n, "parameters", "through the first and last row of the table"),
        Constant("a", a, note=ends),
        Constant("d", 1 / (6 * n), "tokens", "D = C / (6 N)"),
        Constant("b", b, note=ends),
    )


HOFFMANN_1 = Law(
    name="hoffmann-1",
    title="Chinchilla approach 1, the envelope of training curves",
    equations=power_laws("tables 2 and 3"),
    constants=_through((0.4e9, 1.92e19, 8.0e9), (10e12, 1.30e28, 216.2e12)),
    params="all parameters, with embeddings",
    counts="all",
    compute="6 N D (their detailed count of appendix F is within 10 % of it)",
    tokens="tokens of a 32,000-entry SentencePiece vocabulary in MassiveText",
    source=f"{_PAPER}, tables 2 and 3 {_YEAR}",
    confirmed="exponents 0.50 (80 % of bootstraps 0.488 to 0.502) and 0.50 (0.501 to 0.512); runs not public",
    errata=(_A4,),
    valid={"params": (70e6, 16e9), "tokens": (5e9, 500e9), "compute": (6e18, 3e21)},
    frontier=power_frontier,
    exponent=Exponent(0.488, 0.502, 0.80, _CENTRE),
    uncertainty=_EXPONENT,
)

HOFFMANN_2 = replace(
    HOFFMANN_1,
    name="hoffmann-2",
    title="Chinchilla approach 2, isoFLOP parabolas",
    equations=power_laws("tables 2 and A3"),
    constants=_through((0.4e9, 1.84e19, 7.7e9), (10e12, 1.75e28, 292.0e12)),
    source=f"{_PAPER}, tables 2 and A3 {_YEAR}",
    confirmed="exponents 0.49 (80 % of bootstraps 0.462 to 0.534) and 0.51 (0.483 to 0.529); runs not public",
    exponent=Exponent(0.462, 0.534, 0.80, _CENTRE),
)

HOFFMANN_3 = replace(
    HOFFMANN_1,
    name="hoffmann-3",
    title="Chinchilla approach 3, L = E + A / N^alpha + B / D^beta, unrounded",
    equations=chinchilla("equations 2 and 10"),
    constants=(
        Constant("E", math.exp(0.5267228), "nats/token", "e^0.5267228, from the paper's TeX source"),
        Constant("A", math.exp(6.0073404), note="e^6.0073404, from the paper's TeX source"),
        Constant("B", math.exp(6.0179186), note="e^6.0179186, from the paper's TeX source"),
        Constant("alpha", 0.33917084, note="from the paper's TeX source"),
        Constant("beta", 0.2849083, note="from the paper's TeX source"),
    ),
    source=f"{_PAPER}, equations 2, 4 and 10; unrounded in the TeX source, as Besiroglu et al. 2024 found {_YEAR}",
    confirmed="gives the 40B at 5.76e23 of figure 4's caption; not the minimum of its own objective (see besiroglu)",
    errata=(
        "The printed constants are rounded to two digits, which moves the optimum at 5.76e23 from 40.4B to 32.2B.",
        "The optimizer stopped early: losses were averaged, not summed (Besiroglu et al. 2024), so the intervals of "
        "table 2 (0.454 to 0.455) are far too narrow and are not repeated here.",
        "Table A3 prints 1.26e24 FLOP for 175B where 1.26e25 is meant; its other rows need about 10 % less compute "
        "than these constants, so they come from yet other digits.",
        _A4,
    ),
    exponent=None,
    parametric=parametric,
    frontier=frontier,
    superseded=("besiroglu",),
    uncertainty="the paper's intervals come from an optimizer that had not converged",
)

HOFFMANN_3_ROUNDED = replace(
    HOFFMANN_3,
    name="hoffmann-3-rounded",
    title="Chinchilla approach 3 with the constants as printed",
    constants=(
        Constant("E", 1.69, "nats/token"),
        Constant("A", 406.4),
        Constant("B", 410.7),
        Constant("alpha", 0.34),
        Constant("beta", 0.28),
    ),
    source=f"{_PAPER}, equation 10 {_YEAR}",
    confirmed="as printed, for comparison with others who used it: the rounding moves the optimum by a fifth",
    variant_of="hoffmann-3",
)
