"""Kumar et al. 2024: what low precision in training costs, as parameters lost."""

from __future__ import annotations

import math
from typing import Any

from calc.laws.arithmetic import crossing, exp
from calc.laws.base import Constant, Equation, Law
from calc.laws.common import chinchilla, frontier, parametric
from calc.sizes import Size


def _effective(k: Any, n: Size, w: Size, a: Size, kv: Size) -> Size:
    return n * (1 - exp(-w / k.gamma_w)) * (1 - exp(-a / k.gamma_a)) * (1 - exp(-kv / k.gamma_kv))


def _loss(k: Any, n: Size, d: Size, w: Size, a: Size, kv: Size) -> Size:
    return parametric(k).loss(_effective(k, n, w, a, kv), d)


def _rounded(k: Any, n: Size, d: Size, bits: Size) -> Size:
    """Of a model trained at full precision whose weights are rounded afterwards: the longer trained, the worse."""
    return parametric(k).loss(n, d) + k.C_T * d**k.gamma_D / n**k.gamma_N * exp(-bits / k.gamma_post)


_BITS = ("bits_weights", "bits_activations", "bits_cache")


def best_bits(gamma: float, tensors: int = 3) -> float:
    """Bits P at which C = 6 N D P / 16 buys the lowest loss, where `tensors` places share P and gamma.

    For any alpha and beta the loss at a given C depends on P through P / (1 - e^(-P / gamma))^tensors alone, which is
    least where e^u = 1 + tensors u, u = P / gamma (equation 5). One tensor has no such point above 0, so 2 or more.
    """
    if tensors < 2:
        raise ValueError("tensors")
    return gamma * crossing(lambda u: 1 + tensors * u - math.exp(u), math.log(tensors), 2 * math.log(tensors) + 2)


KUMAR = Law(
    name="kumar",
    title="Kumar et al. 2024, training at low precision",
    equations=(
        *chinchilla("equation 1 at full precision"),
        Equation("effective_params", ("params", *_BITS), "equation 4", _effective),
        Equation("loss", ("params", "tokens", *_BITS), "equations 1 and 4", _loss),
        Equation("loss", ("params", "tokens", "bits_post"), "equations 1 and 2; C_T, gamma_post from memory", _rounded),
    ),
    constants=(
        Constant("E", 2.7648, "nats/token"),
        Constant("A", 4299.0),
        Constant("B", 18060.0),
        Constant("alpha", 0.4965),
        Constant("beta", 0.4965, note="set equal to alpha"),
        Constant("gamma_w", 2.6745, "bits"),
        Constant("gamma_a", 2.2102, "bits", "printed as gamma_i"),
        Constant("gamma_kv", 0.9578, "bits"),
        Constant("C_T", 0.0598, "nats/token", "of rounding after training; from memory"),
        Constant("gamma_D", 0.5068, note="of rounding after training; second-hand"),
        Constant("gamma_N", 0.3439, note="of rounding after training; second-hand"),
        Constant("gamma_post", 0.5907, "bits", "of rounding after training; from memory"),
    ),
    params="parameters without embeddings",
    counts="non-embedding",
    compute="6 N D at 16 bits; with P bits in all three places, 6 N D P / 16",
    tokens="tokens of Dolma",
    source="Scaling Laws for Precision, equations 1 and 4, appendix K, table 2 (Kumar et al. 2024, arXiv:2411.04330)",
    confirmed="constants read in table 2 of the paper's text, but for those of rounding after training (equation 2)",
    errata=(
        "The authors' own fit has offsets inside the exponentials (0.3037, 1.4072 and 2.4185), which the main text, "
        "and so this law, leaves out: take the trend, not the numbers, as they say themselves.",
        f"The best precision follows as {best_bits(1.0):.2f} gamma for three tensors alike, 5 bits with gamma_w; the "
        "paper's 7 to 8 bits come from its fit with offsets.",
    ),
    valid={
        "params": (3e7, 2.2e8),
        "tokens": (1.5e9, 2.6e10),
        "bits_weights": (3, 16),
        "bits_activations": (4, 16),
        "bits_cache": (4, 16),
        "bits_post": (3, 6),
    },
    parametric=parametric,
    frontier=frontier,
)
