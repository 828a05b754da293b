"""What a formula's value does when one of its sizes grows by a tenth and all others stay."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from calc.ask.explain import Explanation
from calc.symbols import Symbol, describe

MORE = Fraction(1, 10)
"""By how much each size grows."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """value: of the symbol, before. moved: the quantity with `MORE` of the symbol. change: by what share it moved; None
    where it was 0 before."""

    symbol: Symbol
    value: int
    moved: float
    change: float | None


def sensitivity(explanation: Explanation) -> list[Sensitivity]:
    """What a tenth more of each size of a formula does, what moves it most first.

    The formula is evaluated there exactly, a size that is no whole number included; minima, windows and rounding count
    as they do in it, which no derivative at one point would show.
    """
    import sympy

    given = {symbol: sympy.Integer(number) for symbol, number in explanation.values.items()}
    before = Fraction(int(explanation.estimate.value))
    found = []
    for symbol, number in explanation.values.items():
        more = Fraction(number) * (1 + MORE)
        at = explanation.formula.xreplace(given | {symbol: sympy.Rational(more.numerator, more.denominator)})
        moved = Fraction(int(at.p), int(at.q)) if at.is_Rational else Fraction(float(at))
        change = float((moved - before) / before) if before else None
        found.append(Sensitivity(describe(symbol.name), number, float(moved), change))
    return sorted(found, key=lambda each: -abs(each.change or 0))
