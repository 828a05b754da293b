"""Alternating updates: several residual streams, one of which the layers work on."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from calc.spec.fields import Dim, Node


class AltUp(Node):
    """Alternating updates (Baykal et al. 2023, arXiv:2301.13310), as in Gemma 3n.

    n: streams there are. Each layer predicts all of them by a learned mixture, runs its blocks on the one numbered
    `active`, and corrects all by a share of what that has gained. Before the layers the token's vector is projected to
    the others; behind them the others are projected back, and the mean of all goes on.
    Source: transformers 5.23, models/gemma3n/modeling_gemma3n.py.
    """

    symbols: ClassVar[dict[str, str]] = {"n": "n_altup"}
    n: Dim = 4
    active: int = Field(default=0, ge=0, le=2**10)
