"""Pearce and Song 2024: what Chinchilla's law looks like when embeddings are left out, as Kaplan et al. did."""

from __future__ import annotations

from typing import Any

from calc.laws.arithmetic import crossing, real
from calc.laws.base import Constant, Equation, Law
from calc.laws.besiroglu import BESIROGLU
from calc.laws.common import parametric
from calc.sizes import Size, is_symbolic


def _cube_root(n: Size) -> Size:
    if is_symbolic(n):
        import sympy

        return sympy.cbrt(n)
    return n ** (1 / 3)


def _total(k: Any, n: Size) -> Size:
    return n + k.omega * _cube_root(n)


def _compute(k: Any, n: Size) -> Size:
    """6 N D without embeddings for which N is optimal: dL/dN = 0 along D = C / (6 N), with N_T(N) in the law."""
    total = _total(k, n)
    slope = n + k.omega / 3 * _cube_root(n)
    tokens = (k.beta * k.B * total ** (1 + k.alpha) / (k.alpha * k.A * slope)) ** (1 / k.beta)
    return 6 * n * tokens


PEARCE_SONG = Law(
    name="pearce-song",
    title="Pearce and Song 2024, between the two ways to count N",
    equations=(
        Equation("params_total", ("params",), "section 3, N_T = N + omega N^(1/3)", _total),
        Equation("compute", ("params",), "section 3, C without embeddings at which N is optimal", _compute),
        Equation("loss", ("params", "tokens"), "section 3", lambda k, n, d: parametric(k).loss(_total(k, n), d)),
    ),
    constants=(*BESIROGLU.constants, Constant("omega", 47491, note="fitted to Chinchilla's own models")),
    params="parameters without embeddings and positions",
    counts="non-embedding",
    compute="6 N D without embeddings",
    tokens=BESIROGLU.tokens,
    source="Reconciling Kaplan and Chinchilla Scaling Laws, section 3 (Pearce and Song 2024, arXiv:2406.12907)",
    confirmed="omega read in the authors' script; the optimum proved against numerical minimisation by a test",
    errata=(
        "omega holds for models as wide for their depth as Chinchilla's (width 39 times the layers) and a vocabulary "
        "of 32,000.",
    ),
    valid={"params": (768, 1.6e10), "tokens": BESIROGLU.valid["tokens"]},
)


def total(non_embedding: float) -> float:
    """Parameters with embeddings of a model that has `non_embedding` without them, in Chinchilla's shapes."""
    return PEARCE_SONG.evaluate("params_total", params=non_embedding)


def non_embedding(total: float, share: float = 1.0) -> float:
    """The other way round. share: which part of the embeddings `total` holds, a half being one table of the two.

    Errors: Refused for what is no number above 0.
    """
    total, omega = real("params", total), share * PEARCE_SONG.k.omega
    least = min(total / 4, (total / omega) ** 3 / 8)
    return crossing(lambda n: total - n - omega * _cube_root(n), least, total)
