"""Losses of models trained on mixtures of data: what each domain's share is worth.

Shukor et al. 2025, Scaling Laws for Optimal Data Mixtures (arXiv:2507.09404), its additive and its joint law (the
equations as known). h_i is the share of domain i in the training tokens; the loss is that of one fixed target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from calc.errors import Refused
from calc.fitting.fit import theta_of
from calc.fitting.forms import ALPHA, BETA, LN_A, LN_B, LN_E, Array
from calc.fitting.runs import Runs
from calc.fitting.templates import Template
from calc.laws.base import Constant, Equation, Law

NAMES = ("shukor", "shukor-joint")
_STEPS = 300
_APART = 1e-6


def shukor(name: str, shares: Sequence[str]) -> Template:
    """The template of a name in NAMES for domains whose shares stand in these columns.

    Errors: Refused for fewer than two domains, and for one that is named twice.
    """
    if len(shares) < 2 or len(set(shares)) < len(shares):
        raise Refused("--mixture", "two columns or more, those of each domain's share", ",".join(shares) or "none")
    joint, n = name == "shukor-joint", len(shares)
    mixed = ["A", "B"] if joint else []
    signs = ["E", *(["gamma_A", "gamma_B"] if joint else ["A", "B"]), "alpha", "beta"]
    signs += [f"{letter}{i + 1}" for letter in ("C", "gamma", *mixed) for i in range(n)]

    def loss(k: Any, params: Any, tokens: Any, *h: Any) -> Any:
        each = vars(k)
        floor = 1 / sum(each[f"C{i + 1}"] * part ** each[f"gamma{i + 1}"] for i, part in enumerate(h))
        a, b = (
            sum(each[f"{letter}{i + 1}"] * part for i, part in enumerate(h)) ** each[f"gamma_{letter}"]
            if joint
            else each[letter]
            for letter in ("A", "B")
        )
        return k.E + floor + a / params**k.alpha + b / tokens**k.beta

    def starts(inputs: Mapping[str, Array], losses: Array) -> list[dict[str, float]]:
        return _starts(joint, n, inputs, losses)

    terms = "(A1*h1 + …)**gamma_A/N**alpha + (B1*h1 + …)**gamma_B/D**beta" if joint else "A/N**alpha + B/D**beta"
    title = f"Shukor's {'joint' if joint else 'additive'} law of mixtures, to be fitted"
    return Template(
        Law(
            name=name,
            title=title,
            equations=(Equation("loss", ("params", "tokens", *shares), "the equation as known", loss),),
            constants=tuple(Constant(each, 1.0) for each in signs),
            params="parameters as in the runs' own column",
            counts="all",
            compute="6 N D",
            tokens="tokens as in the runs' own column",
            source="Shukor et al. (2025), Scaling Laws for Optimal Data Mixtures (arXiv:2507.09404)",
            confirmed="the equation as known",
            valid={},
        ),
        f"E + 1/(C1*h1**gamma1 + …) + {terms}; {', '.join(f'h{i + 1} {each}' for i, each in enumerate(shares))}",
        starts,
        shares=tuple(shares),
    )


def _starts(joint: bool, n: int, inputs: Mapping[str, Array], loss: Array) -> list[dict[str, float]]:
    """Chinchilla's fit to the same runs, its floor shared between E and the mixture in several ways."""
    theta = theta_of(Runs(inputs["params"], inputs["tokens"], loss))
    floor, a, b = (float(np.exp(theta[place])) for place in (LN_E, LN_A, LN_B))
    found = []
    for part in (0.1, 0.4, 0.8):
        for steep in (0.2, 0.5, 1.0):
            start = {"E": (1 - part) * floor, "alpha": max(theta[ALPHA], 0.05), "beta": max(theta[BETA], 0.05)}
            for i in range(n):
                start |= {f"C{i + 1}": n ** (steep - 1) / (part * floor), f"gamma{i + 1}": steep}
                start |= {f"A{i + 1}": a, f"B{i + 1}": b} if joint else {}
            found.append(start | ({"gamma_A": 1.0, "gamma_B": 1.0} if joint else {"A": a, "B": b}))
    return found


def best_shares(
    loss: Callable[..., Array], sets: Array, sizes: tuple[float, float], shares: Sequence[str]
) -> dict[str, Array]:
    """The mixture of lowest loss at N and D for each set of constants: each domain's share, of shape (sets,).

    loss: sets of constants, N, D and each share -> losses, (sets, points). By multiplicative steps, which keep shares
    positive and their sum 1.
    """
    params, tokens = np.float64(sizes[0]), np.float64(sizes[1])
    n = len(shares)
    h = np.full((len(sets), n), 1 / n)
    pace = np.ones((len(sets), 1))

    def at(points: Array) -> Array:
        """Losses of shape (sets, points) at mixtures of shape (sets, points, domains)."""
        return loss(sets, params, tokens, *np.moveaxis(points, -1, 0))

    lowest = at(h[:, None])
    off = _APART * np.concatenate([np.eye(n), -np.eye(n)])
    with np.errstate(all="ignore"):
        for _ in range(_STEPS):
            above, below = np.split(at(h[:, None] + off), 2, axis=1)
            slope = above - below
            trial = h * np.exp(-pace * slope / np.abs(slope).max(axis=1, keepdims=True))
            trial = np.maximum(trial, 2 * _APART)
            trial /= trial.sum(axis=1, keepdims=True)
            value = at(trial[:, None])
            better = value <= lowest
            h, lowest = np.where(better, trial, h), np.where(better, value, lowest)
            pace = np.where(better, np.minimum(1.3 * pace, 1.0), pace / 2)
            if pace.max() < _APART:
                break
    return dict(zip(shares, h.T, strict=True))
