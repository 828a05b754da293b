"""What may be handed in as a size or as a word. Everything else is refused by the name of its field."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from calc.errors import Refused
from calc.sizes import Size, is_array, is_symbolic


def size(field: str, value: Size, least: int = 1) -> Size:
    """`value` where it is a size: an int from `least` on, a finite float or fraction from 0 on, an array, a formula.

    Arrays become float64, since int64 wraps around in silence past 2^63; numpy's scalars become Python's numbers.
    Errors: Refused for anything else, booleans and text included.
    """
    if type(value) is int:
        if value >= least:
            return value
    elif is_symbolic(value):
        return value
    elif is_array(value):
        return size(field, value.item(), least) if value.ndim == 0 else _column(field, value, least)
    elif isinstance(value, float | Fraction) and 0 <= value < math.inf:
        return value
    raise Refused(field, f"a whole number from {least} on", value)


def word(field: str, value: object, known: Sequence[str]) -> None:
    """Errors: Refused where `value` is none of `known`."""
    if not isinstance(value, str) or value not in known:
        raise Refused(field, f"one of {', '.join(known)}", value)


def _column(field: str, value: Size, least: int) -> Size:
    """An array of numbers as float64."""
    kind = getattr(value.dtype, "kind", "")
    if kind in ("i", "u", "f"):
        column = value.astype("float64", copy=False)
        if ((column >= (0 if kind == "f" else least)) & (column < math.inf)).all():
            return column
    raise Refused(field, f"finite numbers from {least} on", value)
