"""Kaplan et al. 2020: power laws in N, D, C, steps and batch, and the large models that they ask for."""

from __future__ import annotations

from typing import Any

from calc.errors import Refused
from calc.laws.arithmetic import log
from calc.laws.base import PF_DAY, Constant, Equation, Frontier, Law
from calc.sizes import Size


def _joint(k: Any, n: Size, d: Size) -> Size:
    return ((k.Nc2 / n) ** (k.alpha_N2 / k.alpha_D2) + k.Dc2 / d) ** k.alpha_D2


def _alpha_c(k: Any) -> Size:
    return 1 / (1 / k.alpha_S3 + 1 / k.alpha_B + 1 / k.alpha_N3)


def _critical_batch(k: Any, loss: Size) -> Size:
    return k.B_star / loss ** (1 / k.alpha_B)


def _least_compute(k: Any, n: Size, s: Size) -> Size:
    """6 N B_crit(L) S_min, at the loss that N and S_min give (equations 5.4 and 5.5)."""
    loss = (k.Nc3 / n) ** k.alpha_N3 + (k.Sc3 / s) ** k.alpha_S3
    return 6 * n * _critical_batch(k, loss) * s


def _derived_loss(k: Any, c: Size) -> Size:
    """The lowest L(N, S_min) at 6 N B_crit(L) S_min = C_min.

    There alpha_N (Nc / N)^alpha_N = alpha_S (Sc / S)^alpha_S, so both terms are fixed shares of the loss.
    """
    share_n = k.alpha_S3 / (k.alpha_N3 + k.alpha_S3)
    unit = 6 * k.Nc3 * k.Sc3 * k.B_star / share_n ** (1 / k.alpha_N3) / (1 - share_n) ** (1 / k.alpha_S3)
    return (unit / c) ** _alpha_c(k)


def _derived_params(k: Any, c: Size) -> Size:
    share_n = k.alpha_S3 / (k.alpha_N3 + k.alpha_S3)
    return k.Nc3 / (share_n * _derived_loss(k, c)) ** (1 / k.alpha_N3)


def _deviation(k: Any, factor: float) -> float:
    """C_min for the same loss over the least, of a model of `factor` times the best size (appendix B.4).

    Errors: Refused for a model so small that no number of steps reaches the loss.
    """
    left = 1 + k.alpha_S3 / k.alpha_N3 * (1 - factor**-k.alpha_N3)
    if left <= 0:
        least = (1 + k.alpha_N3 / k.alpha_S3) ** (-1 / k.alpha_N3)
        raise Refused("factor", f"more than {least:.3g} of the optimal size, below which no training is enough", factor)
    return factor * left ** (-1 / k.alpha_S3)


def _learning_rate(k: Any, n: Size) -> Size:
    return k.lr_0 - k.lr_1 * log(n)


def _frontier(k: Any) -> Frontier:
    """Against the FLOPs that are really spent: at the critical batch C = 2 C_min, and D = C / (6 N)."""
    unit = 2 * PF_DAY
    n = k.N_e * unit**-k.p_N
    return Frontier(n, k.p_N, 1 / (6 * n), 1 - k.p_N, 0.0, (k.Cc_min * unit) ** k.alpha_C_min, k.alpha_C_min)


EQUATIONS = (
    Equation("loss", ("params",), "equation 1.1, table 5", lambda k, n: (k.Nc / n) ** k.alpha_N),
    Equation("loss", ("tokens",), "equation 1.2, table 5", lambda k, d: (k.Dc / d) ** k.alpha_D),
    Equation(
        "loss",
        ("compute_min",),
        "equation 1.3, table 5",
        lambda k, c: (k.Cc_min * PF_DAY / c) ** k.alpha_C_min,
    ),
    Equation(
        "loss",
        ("compute_naive",),
        "table 5, the naive trend",
        lambda k, c: (k.Cc * PF_DAY / c) ** k.alpha_C,
    ),
    Equation("loss", ("params", "tokens"), "equation 1.5, table 2", _joint),
    Equation(
        "loss",
        ("params", "steps_min"),
        "equation 1.6, table 3",
        lambda k, n, s: (k.Nc3 / n) ** k.alpha_N3 + (k.Sc3 / s) ** k.alpha_S3,
    ),
    Equation(
        "batch_tokens",
        ("loss",),
        "equation 1.4, the critical batch",
        _critical_batch,
    ),
    Equation(
        "compute_min",
        ("compute", "batch_tokens", "loss"),
        "equation 5.5, the batch correction",
        lambda k, c, b, loss: c / (1 + b / _critical_batch(k, loss)),
    ),
    Equation("compute_min", ("params", "steps_min"), "equations 5.4 and 5.5", _least_compute),
    Equation("tokens", ("params",), "equation 4.4, below which a model overfits", lambda k, n: k.D_o * n**k.p_o),
    Equation("params", ("compute_min",), "table 6", lambda k, c: k.N_e * (c / PF_DAY) ** k.p_N),
    Equation("batch_tokens", ("compute_min",), "table 6", lambda k, c: k.B_e * (c / PF_DAY) ** k.p_B),
    Equation("steps_min", ("compute_min",), "table 6", lambda k, c: k.S_e * (c / PF_DAY) ** k.p_S),
    Equation("tokens", ("compute_min",), "table 6, one epoch", lambda k, c: k.D_e * (c / PF_DAY) ** k.p_D),
    Equation("params", ("compute",), "table 6 with C_min = C / 2", lambda k, c: _frontier(k).params(c)),
    Equation("tokens", ("compute",), "D = C / (6 N)", lambda k, c: _frontier(k).tokens(c)),
    Equation("loss", ("compute",), "table 5 with C_min = C / 2", lambda k, c: _frontier(k).loss(c)),
    Equation("learning_rate", ("params",), "equation D.1", _learning_rate),
)

CONSTANTS = (
    Constant("alpha_N", 0.076, note="table 5"),
    Constant("Nc", 8.8e13, "parameters", "table 5"),
    Constant("alpha_D", 0.095, note="table 5"),
    Constant("Dc", 5.4e13, "tokens", "table 5"),
    Constant("alpha_C_min", 0.050, note="table 5"),
    Constant("Cc_min", 3.1e8, "PF-days", "table 5"),
    Constant("alpha_C", 0.057, note="table 5, from memory of it"),
    Constant("Cc", 1.6e7, "PF-days", "table 5, from memory of it"),
    Constant("alpha_B", 0.21, note="equation 1.4"),
    Constant("B_star", 2e8, "tokens", "equation 1.4; table 5 has 2.1e8"),
    Constant("alpha_N2", 0.076, note="table 2, for L(N, D)"),
    Constant("alpha_D2", 0.103, note="table 2, for L(N, D)"),
    Constant("Nc2", 6.4e13, "parameters", "table 2, for L(N, D)"),
    Constant("Dc2", 1.8e13, "tokens", "table 2, for L(N, D)"),
    Constant("alpha_N3", 0.077, note="table 3, for L(N, S)"),
    Constant("alpha_S3", 0.76, note="table 3, for L(N, S)"),
    Constant("Nc3", 6.5e13, "parameters", "table 3, for L(N, S)"),
    Constant("Sc3", 2.1e3, "steps", "table 3, for L(N, S)"),
    Constant("p_N", 0.73, note="table 6"),
    Constant("N_e", 1.3e9, "parameters", "table 6, at one PF-day"),
    Constant("p_B", 0.24, note="table 6"),
    Constant("B_e", 2.0e6, "tokens", "table 6, at one PF-day"),
    Constant("p_S", 0.03, note="table 6"),
    Constant("S_e", 5.4e3, "steps", "table 6, at one PF-day"),
    Constant("p_D", 0.27, note="table 6"),
    Constant("D_e", 2e10, "tokens", "table 6, at one PF-day"),
    Constant("D_o", 5e3, "tokens", "equation 4.4, from memory of it"),
    Constant("p_o", 0.74, note="equation 4.4, from memory of it"),
    Constant("lr_0", 0.003239, note="equation D.1, from memory of it"),
    Constant("lr_1", 0.0001395, note="equation D.1, natural logarithm, from memory of it"),
)

KAPLAN = Law(
    name="kaplan",
    title="Kaplan et al. 2020, large models on little data",
    equations=(
        *EQUATIONS,
        Equation("params", ("loss",), "equation 1.1 turned around", lambda k, loss: k.Nc / loss ** (1 / k.alpha_N)),
    ),
    constants=CONSTANTS,
    params="parameters without embeddings and positions",
    counts="non-embedding",
    compute="6 N D without embeddings at the critical batch, twice the C_min of table 6 (C_min = C / (1 + B / B_crit))",
    tokens="tokens of GPT-2's vocabulary (50,257) in WebText2; loss in nats a token",
    source="Scaling Laws for Neural Language Models, tables 2, 3, 5 and 6 (Kaplan et al. 2020, arXiv:2001.08361)",
    confirmed="tables read in the paper's text, equation D.1 not; the runs are not public and no errors are printed",
    errata=(
        "Superseded as advice: one schedule for all budgets, small models and N without embeddings bend the exponent "
        "(Hoffmann et al. 2022; Porian et al. 2024; Pearce and Song 2024).",
        "C_min is not the C that is spent: at the critical batch C = 2 C_min, so 1e21 FLOP ask for 4.7B, not 7.8B.",
        "Equation 6.7 prints 4e10 tokens at one PF-day for 2 C_min / 6 N, which is 2.2e10 with table 6; the table's "
        "own D_e is 2e10.",
        "B_star is 2e8 in equation 1.4 and 2.1e8 in table 5.",
    ),
    valid={"params": (768, 1.5e9), "tokens": (2.2e7, 2.3e10)},
    frontier=_frontier,
    deviation=_deviation,
    superseded=("hoffmann-1", "porian", "pearce-song"),
)

KAPLAN_DERIVED = Law(
    name="kaplan-derived",
    title="Kaplan et al. 2020, the optimum that follows from L(N, S) and the critical batch",
    equations=(
        Equation("params", ("compute_min",), "appendix B.1", _derived_params),
        Equation("loss", ("compute_min",), "appendix B.1", _derived_loss),
        Equation("compute_min", ("params", "steps_min"), "equations 5.4 and 5.5", _least_compute),
        next(each for each in EQUATIONS if each.takes == ("params", "steps_min")),
    ),
    constants=CONSTANTS,
    params=KAPLAN.params,
    counts=KAPLAN.counts,
    compute="C_min, FLOPs at a batch far below the critical one, without embeddings",
    tokens=KAPLAN.tokens,
    source="Scaling Laws for Neural Language Models, appendix B.1 and table 3 (Kaplan et al. 2020, arXiv:2001.08361)",
    confirmed="closed form proved against numerical minimisation by a test",
    errata=("Its exponent of N, alpha_C / alpha_N = 0.71 (equation B.9), differs from the 0.73 measured in table 6.",),
    valid=KAPLAN.valid,
    variant_of="kaplan",
)
