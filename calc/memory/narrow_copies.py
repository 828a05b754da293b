"""Bytes of weights that a rank keeps and gathers where matrices have copies in fewer bits (`Run.narrow_weights`)."""

from __future__ import annotations

from fractions import Fraction

from calc.sizes import Size, at_least, ceil_div, is_exactly
from calc.spec.run import Run


def with_copies(elements: Size, run: Run, ranks: Size) -> Size:
    """Bytes that a rank keeps of matrices that have narrow copies."""
    its = run.narrow_weights
    if its is None:
        return 0
    divides = at_least(run.zero, run.weights_from) * at_least(ranks, 2)
    parts = _bytes(part_of(elements, run.zero, run.weights_from, ranks), its.part) + _bytes(elements, its.beside)
    return (1 - divides) * _bytes(elements, its.kept) + divides * parts


def gathered_bytes(elements: Size, narrow: Size, run: Run, width: int) -> Size:
    """Bytes of gathered weights, of which so many stand in matrices that have narrow copies."""
    its = run.narrow_weights
    return width * elements if its is None else width * (elements - narrow) + _bytes(narrow, its.gathered)


def _bytes(elements: Size, each: Fraction) -> Size:
    return ceil_div(elements * each.numerator, each.denominator)


def part_of(whole: Size, zero: Size, stage: int, ranks: Size) -> Size:
    """What one of `ranks` keeps of `whole` where ZeRO divides it, rounded up."""
    divides = at_least(zero, stage)
    if is_exactly(divides, 0):
        return whole
    return ceil_div(whole, 1 + (ranks - 1) * divides)
