"""Step Law 2025: learning rate and batch for any size and number of tokens."""

from __future__ import annotations

from calc.laws.base import Constant, Equation, Law

STEP_LAW = Law(
    name="step-law",
    title="Step Law 2025, learning rate and batch",
    equations=(
        Equation(
            "learning_rate",
            ("params", "tokens"),
            "equation 1",
            lambda k, n, d: k.lr_base * n**k.lr_N * d**k.lr_D,
        ),
        Equation("batch_tokens", ("tokens",), "equation 1", lambda k, d: k.B_base * d**k.B_D),
    ),
    constants=(
        Constant("lr_base", 1.79),
        Constant("lr_N", -0.713),
        Constant("lr_D", 0.307),
        Constant("B_base", 0.58, "tokens"),
        Constant("B_D", 0.571),
    ),
    params="parameters without embeddings",
    counts="non-embedding",
    compute="none: N and D are given",
    tokens="tokens of its own 65,536-entry BPE",
    source="Predictable Scale: Part I, Step Law, equation 1 (Li et al. 2025, arXiv:2503.04715)",
    confirmed="constants read in a summary of the paper; the peak learning rate of a schedule that ends at 1e-5",
    second_hand="constants second-hand",
    errata=(
        "At a fixed batch Bjorck et al. 2024 find rates that fall with data: beyond its own data its rate is carried "
        "on by their exponent too, and the two are ends of a band.",
    ),
    valid={"params": (6e7, 1.1e9), "tokens": (2e9, 1e11)},
)
