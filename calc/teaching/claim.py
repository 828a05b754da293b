"""One thing that the lecture notes say, and the verdict on it.

A printed number is *confirmed* within 1 % of the number here, *rounded* where that rounds to its digits or is within
5 %, else *wrong*. A statement without a number carries its verdict with its argument.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["confirmed", "rounded", "wrong", "not reproducible here"]


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing the notes say.

    lecture: number of the file of notes. claim: what they say. why: the formula, or the argument.
    printed, digits: its number and how many significant digits it has. value: what is computed here. recorded: what was
    counted elsewhere, where nothing here can compute it, as `calc/data/published/lecture_counts.toml` says it.
    stated: the verdict on a statement, or on a number that cannot be computed here.
    """

    lecture: int
    claim: str
    why: str
    printed: float | None = None
    digits: int = 2
    value: Callable[[], float] | None = None
    recorded: float | None = None
    stated: Verdict = "confirmed"

    @property
    def verdict(self) -> Verdict:
        """The judgement on this claim."""
        value = self.recorded if self.value is None else self.value()
        if value is None or self.printed is None:
            return self.stated
        off = abs(value / self.printed - 1)
        if off <= 0.01:
            return "confirmed"
        rounds = float(f"{value:.{self.digits - 1}e}") == self.printed
        return "rounded" if rounds or off <= 0.05 else "wrong"


def written(value: float | None) -> str:
    """A number of a claim as tables show it; empty where there is none."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value == int(value) and value < 1e7 else f"{value:.4g}"
