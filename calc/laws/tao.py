"""Tao et al. 2024: how many of a model's parameters belong to its vocabulary."""

from __future__ import annotations

from typing import Any

from calc.laws.arithmetic import crossing
from calc.laws.base import Constant, Equation, Law
from calc.sizes import Size


def _normalized(k: Any, n: Size, v: Size, d: Size) -> Size:
    return k.A1 / (n / 1e6) ** k.alpha1 + k.A2 / (v / 1e6) ** k.alpha2 + k.B / (d / 1e9) ** k.beta - k.E


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
            "approach 2, from the derivative of compute",
            lambda k, n: k.v_0 * (n / k.n_0) ** k.power,
        ),
        Equation("normalized_loss", ("params", "vocab_params", "tokens"), "approach 3, parametric", _normalized),
    ),
    constants=(
        Constant("n", 0.083354639, "parameters", "e^-2.48465"),
        Constant("a", 0.5),
        Constant("v", 0.20412323, "parameters", "e^-1.58903"),
        Constant("g", 0.41636226),
        Constant("h", 6.42, "characters", "second-hand: a summary of the paper"),
        Constant("b", 0.50),
        Constant("n_0", 3.3e7, "parameters", "where approach 2 was fitted"),
        Constant("v_0", 3145728, "parameters", "the best vocabulary there"),
        Constant("power", 0.8353974),
        Constant("A1", 1.8313852, "nats/token", "of N in millions"),
        Constant("alpha1", 0.44660634, note="set equal to beta"),
        Constant("A2", 0.19584238, "nats/token", "of N_v in millions"),
        Constant("alpha2", 0.67073747),
        Constant("B", 2.1241123, "nats/token", "of D in billions"),
        Constant("beta", 0.44660634),
        Constant("E", 5.5327847, "nats/token", "taken away: a unigram model is that much worse"),
    ),
    params="parameters without the vocabulary's table, which N_v counts once: entries times d_model",
    counts="non-embedding",
    compute="6 (N + N_v) D, D the tokens that H characters become with the vocabulary",
    tokens="characters of SlimPajama; tokens depend on the vocabulary",
    source=(
        "Scaling Laws with Vocabulary: Larger Models Deserve Larger Vocabularies, approaches 1 to 3 "
        "(Tao et al. 2024, arXiv:2407.13623)"
    ),
    confirmed="constants as in the authors' code (github.com/sail-sg/scaling-with-vocab at 8a59af1), but for h",
    errata=(
        "The paper rounds approach 1 to 0.08, 0.20 and 0.42, which for 7B parameters asks for 75,000 entries where its "
        "table has 62,000.",
        "Losses of approach 3 are less those of a unigram model of the same vocabulary, so that vocabularies compare; "
        "they are no losses in nats a token of a text.",
    ),
    valid={"params": (3.3e7, 1.13e9)},
)


def best_vocabulary(params: float, compute: float | None = None) -> float:
    """Parameters of the vocabulary with which N others have the lowest loss of approach 3, at C FLOP.

    compute: by default that at which approach 1 has N as optimal. There dL/dN_v is 0 at 6 (N + N_v) D = C.
    """
    k = TAO.k
    flop = (params / k.n) ** (1 / k.a) if compute is None else compute

    def gain(v: float) -> float:
        tokens = flop / (6 * (params + v)) / 1e9
        of_table = k.alpha2 * k.A2 / (v / 1e6) ** k.alpha2 / v
        return of_table - k.beta * k.B / tokens**k.beta / (params + v)

    return crossing(gain, 1.0, 1e3 * params)
