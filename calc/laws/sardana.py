"""Sardana et al. 2023: the cheapest model of a quality once its use is paid for too."""

from __future__ import annotations

from dataclasses import replace

from calc.laws.base import Constant, Equation
from calc.laws.hoffmann import HOFFMANN_3

SARDANA = replace(
    HOFFMANN_3,
    name="sardana",
    title="Sardana et al. 2023, training and use together",
    equations=(
        *HOFFMANN_3.equations,
        Equation(
            "compute",
            ("params", "tokens", "inference_tokens"),
            "equation 3, FLOPs of training and use",
            lambda k, n, d, used: 6 * n * d + 2 * n * used,
        ),
    ),
    compute="6 N D of training, and 2 N for each token of use",
    source="Beyond Chinchilla-Optimal, equation 3, with approach 3 of Hoffmann (Sardana et al. 2023, arXiv:2401.00448)",
    confirmed="an objective, not constants: the cheapest 6 N D + 2 N D_inf at equal loss (--inference-tokens)",
    errata=(
        *HOFFMANN_3.errata,
        "Fitted to runs of up to 10,000 tokens a parameter the exponents become 0.18 and 0.24 (its table 1): far past "
        "the optimum the law promises too much.",
    ),
    variant_of="hoffmann-3",
)

SARDANA_PRINTED = replace(
    SARDANA,
    name="sardana-printed",
    title="Sardana et al. 2023 with the constants of its own examples",
    constants=(
        Constant("E", 1.69, "nats/token"),
        Constant("A", 406.4),
        Constant("B", 410.7),
        Constant("alpha", 0.336, note="from memory"),
        Constant("beta", 0.283, note="from memory"),
    ),
    confirmed=(
        "exponents from memory of the paper; with them its example comes out: for the quality of 30B and 1e13 tokens "
        "of use, 13.6B on 2.84 times the data, 28 % cheaper"
    ),
    second_hand="sardana-printed's exponents are second-hand: not read in the paper itself",
)
