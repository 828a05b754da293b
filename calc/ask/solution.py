"""Answers to inverse questions: the sizes found, or that there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


class NoSolution(ArithmeticError):
    """No size within bounds reaches the target."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Allowed whole sizes, by symbol name, and the exact value of the quantity there."""

    sizes: Mapping[str, int]
    value: int


@dataclass(frozen=True, slots=True)
class Solution:
    """root: the real number at which the quantity equals the target; None where it never does within bounds.
    candidates: for a target the nearest allowed sizes, nearest first; for a budget the one extreme that fits: the
    largest where the quantity is rising with the size, the smallest where it is not."""

    quantity: str
    symbol: str
    target: int | float
    budget: bool
    rising: bool
    root: float | None
    candidates: tuple[Candidate, ...]
