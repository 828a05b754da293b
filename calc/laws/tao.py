"""Tao et al. 2024: how many of a model's parameters belong to its vocabulary."""

from __future__ import annotations

from calc.laws.base import Constant, Equation, Law

TAO = Law(
    name="tao",
    title="Tao et al. 2024, vocabulary against compute",
    equations=(
        Equation("params", ("compute",), "approach 1, isoFLOP", lambda k, c: k.n * c**k.a),
        Equation("vocab_params", ("compute",), "approach 1, isoFLOP", lambda k, c: k.v * c**k.g),
        Equation("characters", ("compute",), "approach 1, isoFLOP", lambda k, c: k.h * c**k.b),
        Equation(
            "vocab_params",
            ("params",),
            "approach 1, at the compute where N is best",
            lambda k, n: k.v * (n / k.n) ** (k.g / k.a),
        ),
    ),
    constants=(
        Constant("n", 0.08, "parameters"),
        Constant("a", 0.50),
        Constant("v", 0.20, "parameters"),
        Constant("g", 0.42),
        Constant("h", 6.42, "characters"),
        Constant("b", 0.50),
    ),
    params="parameters without the vocabulary's table, which N_v counts once: entries times d_model",
    counts="non-embedding",
    compute="6 (N + N_v) D, D the tokens that H characters become with the vocabulary",
    tokens="characters of SlimPajama; tokens depend on the vocabulary",
    source=(
        "Scaling Laws with Vocabulary: Larger Models Deserve Larger Vocabularies, approach 1 "
        "(Tao et al. 2024, arXiv:2407.13623)"
    ),
    confirmed="constants as a summary of the paper has them, to two digits",
    second_hand="tao's constants are second-hand: not read in the paper itself",
    errata=(
        "The exponent of N_v in N is 0.84 here, and 0.83 by the paper's derivative approach.",
        "Its third approach, L_u of N, N_v and D, is left out: in which units its constants are was not found.",
    ),
    valid={"params": (3.3e7, 1.13e9)},
)
