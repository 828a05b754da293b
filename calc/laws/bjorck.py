"""Bjorck et al. 2024: how the best learning rate falls with the number of tokens."""

from __future__ import annotations

from calc.laws.base import Constant, Equation, Law

BJORCK = Law(
    name="bjorck",
    title="Bjorck et al. 2024, learning rate carried to more tokens",
    equations=(
        Equation(
            "learning_rate",
            ("known_rate", "known_tokens", "tokens"),
            "the rule for models of 760M parameters and more",
            lambda k, eta, d_1, d: eta * (d / d_1) ** -k.beta,
        ),
    ),
    constants=(Constant("beta", 0.32, note="second-hand; of one size 0.32 to 0.42, below 760M parameters to 0.70"),),
    params="none: the rate at another number of tokens is given",
    counts="non-embedding",
    compute="none: D is given",
    tokens="tokens of its own data; batches of 0.5M tokens at every horizon",
    source="Scaling Optimal LR Across Token Horizons (Bjorck et al. 2024, arXiv:2409.19913)",
    confirmed="the exponent as several readers of the paper print it; the paper's own text was not read",
    second_hand="bjorck's exponent is second-hand: not read in the paper itself",
    errata=(
        "The constant that others print before N^-0.23 D^-0.32, 1.3192e-5, gives rates of 1e-11: in which units N and "
        "D are was not found, so the rule has no rate of its own and carries one that is known.",
        "At a fixed batch its rates fall with data where Step Law's rise, whose batches grow with data: in a band of "
        "rules it carries Step Law's rate on from the end of that law's data.",
    ),
    valid={"tokens": (2.5e10, 8e11)},
)
