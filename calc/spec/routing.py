"""How many experts a batch reaches: by how evenly tokens choose among them."""

from __future__ import annotations

import math

from calc.errors import Refused
from calc.sizes import Size, is_array, is_symbolic, minimum

USUAL = "uniform"
SPELLINGS = "uniform, balanced or power-law:ALPHA with ALPHA from 0 to 8"
STEPS = 100
"""Halvings of the scale that makes chances add up to top_k: more than a float has bits."""


def read_routing(value: object) -> str:
    """`value`, where it names a routing. Errors: Refused."""
    if not isinstance(value, str) or (value not in ("uniform", "balanced") and _exponent(value) is None):
        raise Refused("routing", SPELLINGS, value)
    return value


def reached(name: str, n_experts: Size, top_k: Size, tokens: Size) -> Size:
    """Experts of one layer that `tokens` tokens visit, each of them `top_k` of `n_experts`.

    uniform: the expectation where every choice is as likely, n_experts * (1 - (1 - top_k / n_experts)^tokens).
    balanced: as many as there are visits, all of them at most. power-law:ALPHA: the expectation where the expert of
    rank i is chosen with a chance in proportion to i^-ALPHA, but by one token once at most. Expectations are no whole
    numbers.
    Errors: Refused for an unknown routing, and for a power law over a number of experts that is no int.
    """
    if isinstance(tokens, int) and tokens <= 1:
        return top_k * tokens
    if name == "balanced":
        return minimum(n_experts, tokens * top_k)
    alpha = _exponent(read_routing(name))
    if alpha is None:
        return _whole(n_experts * (1 - _missed(top_k, n_experts) ** tokens))
    if not isinstance(n_experts, int) or not isinstance(top_k, int) or is_symbolic(tokens):
        raise Refused("routing", "uniform or balanced in a formula or a sweep over experts", name)
    return _whole(sum(1 - (1 - chance) ** tokens for chance in _chances(n_experts, top_k, alpha)))


def _missed(top_k: Size, n_experts: Size) -> Size:
    """The chance that a token does not visit an expert. A float in formulas too: put into a power of a million tokens,
    a fraction would become a number of a million digits. Where a column has a token visit more experts than there are,
    there is none."""
    missed = 1.0 - top_k / n_experts
    if not is_array(missed):
        return missed
    import numpy

    return numpy.where(missed < 0, numpy.nan, missed)


def _chances(n_experts: int, top_k: int, alpha: float) -> list[float]:
    """The chance of each expert that a token visits it: at most 1 each, top_k together."""
    weights = [float(rank) ** -alpha for rank in range(1, n_experts + 1)]
    low, high = 0.0, 1 / weights[-1]
    for _ in range(STEPS):
        middle = (low + high) / 2
        if sum(min(1.0, middle * weight) for weight in weights) < top_k:
            low = middle
        else:
            high = middle
    return [min(1.0, high * weight) for weight in weights]


def _exponent(name: str) -> float | None:
    """ALPHA of a power law; None where the name is no such law."""
    kind, _, number = name.partition(":")
    try:
        alpha = float(number)
    except ValueError:
        return None
    return alpha if kind == "power-law" and math.isfinite(alpha) and 0 <= alpha <= 8 else None


def _whole(count: Size) -> Size:
    """An int where the count is one: of many tokens no expert is left out."""
    exact = not is_array(count) and not is_symbolic(count)
    return int(count) if exact and float(count).is_integer() else count
