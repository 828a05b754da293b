"""Functions and checks for numbers that are real: ints and floats, float64 arrays, sympy expressions."""

from __future__ import annotations

import math
from collections.abc import Callable

from calc.errors import Refused
from calc.sizes import Size, is_array, is_symbolic


def real(field: str, value: Size, zero: bool = False) -> Size:
    """`value` as a float, a float64 array or a formula, above 0 (with `zero`, or 0) and finite.

    Floats come before any product: 6 * N * D of 64-bit whole numbers wraps around in silence.
    Errors: Refused for anything else, booleans and text included.
    """
    if is_symbolic(value):
        return value
    if is_array(value) and getattr(value.dtype, "kind", "") in ("i", "u", "f"):
        column = value.astype("float64")
        if (((column > 0) | (zero & (column == 0))) & (column < math.inf)).all():
            return column if column.ndim else float(column)
    elif isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf and (value or zero):
        return float(value)
    raise Refused(field, "a finite number of 0 or more" if zero else "a finite number above 0", value)


def exp(x: Size) -> Size:
    """e to the x."""
    return _function("exp", x)


def log10(x: Size) -> Size:
    """The logarithm to base 10."""
    if is_symbolic(x):
        import sympy

        return sympy.log(x) / sympy.log(10)
    return _function("log10", x)


def _function(name: str, x: Size) -> Size:
    if is_symbolic(x):
        import sympy

        return getattr(sympy, name)(x)
    if is_array(x):
        import numpy

        return getattr(numpy, name)(x)
    return getattr(math, name)(x)


def crossing(f: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling `f` crosses 0 between `low` and `high`, both above 0, to a few last bits.

    Errors: ArithmeticError where it does not change its sign between them.
    """
    if not f(low) >= 0 >= f(high):
        raise ArithmeticError(f"no crossing between {low:g} and {high:g}")
    a, b = math.log(low), math.log(high)
    while (middle := (a + b) / 2) not in (a, b):
        a, b = (middle, b) if f(math.exp(middle)) > 0 else (a, middle)
    return math.exp(b)


def lowest(f: Callable[[float], float], low: float, high: float) -> float:
    """Where `f` with one valley is lowest between `low` and `high`, both above 0, to about 1e-8 of it.

    A golden section of the logarithms: closer than the root of the last bit, values no longer tell points apart.
    """
    ratio = (math.sqrt(5) - 1) / 2
    a, b = math.log(low), math.log(high)
    x, y = b - ratio * (b - a), a + ratio * (b - a)
    fx, fy = f(math.exp(x)), f(math.exp(y))
    while b - a > 1e-10:
        if fx <= fy:
            b, y, fy = y, x, fx
            x = b - ratio * (b - a)
            fx = f(math.exp(x))
        else:
            a, x, fx = x, y, fy
            y = a + ratio * (b - a)
            fy = f(math.exp(y))
    return math.exp((a + b) / 2)


def log(x: Size) -> Size:
    """The natural logarithm."""
    return _function("log", x)
