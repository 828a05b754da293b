"""Arithmetic on sizes that reads the same for ints, floats, numpy arrays and sympy expressions.

Every formula of Envelope is written once, on sizes. What the sizes are decides what comes out: ints give the exact
number, sympy symbols the closed formula, float64 arrays a million configurations at once. `+`, `-`, `*` need no help;
this module holds the operations that do. numpy and sympy are imported only where a value of theirs is already in hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

Size = Any
"""An int (exact), a float, a float64 numpy array, or a sympy expression."""


def is_symbolic(value: Size) -> bool:
    """Whether `value` is a sympy expression (asked without importing sympy)."""
    return hasattr(value, "free_symbols")


def is_array(value: Size) -> bool:
    """Whether `value` is a numpy array or scalar (asked without importing numpy)."""
    return hasattr(value, "dtype")


def is_exactly(a: Size, b: Size) -> bool:
    """Whether two sizes are known to be the same: one object, or equal ints. Arrays and formulas are not asked."""
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def differ(a: Size, b: Size) -> bool:
    """Whether two sizes are known to differ: both are ints. Of arrays and formulas nothing is said."""
    return isinstance(a, int) and isinstance(b, int) and a != b


def equal(a: Size, b: Size) -> bool:
    """Whether two sizes are equal, arrays in every one of their values."""
    same = a == b
    return bool(same.all()) if is_array(same) else bool(same)


def holds(condition: Size) -> bool:
    """Whether a comparison of numbers or arrays is true, of arrays in any of their values."""
    return bool(condition.any()) if is_array(condition) else bool(condition)


def exact_div(a: Size, b: Size) -> Size:
    """`a / b`, which must leave no rest when both are ints.

    Errors: ArithmeticError when ints do not divide; a rounded quotient would be a wrong number.
    """
    if isinstance(a, int) and isinstance(b, int):
        quotient, rest = divmod(a, b)
        if rest:
            raise ArithmeticError(f"{a} is not divisible by {b}")
        return quotient
    if is_symbolic(a) or is_symbolic(b):
        import sympy

        return sympy.sympify(a) / b
    return a / b


def quotient(a: Size, b: Size) -> Size:
    """`a / b`: an int where ints divide, and a float where they leave a rest."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if a % b == 0 else a / b
    return exact_div(a, b)


def ratio(a: Size, b: Size) -> Size:
    """`a / b`: an int where ints divide, and an exact fraction where they leave a rest."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if a % b == 0 else Fraction(a, b)
    return exact_div(a, b)


def as_int(n: Size) -> Size:
    """n as an int where it is a fraction that is whole."""
    return n.numerator if isinstance(n, Fraction) and n.denominator == 1 else n


def ceil_div(a: Size, b: Size) -> Size:
    """The smallest whole number that is at least `a / b`; a itself, a whole number, where b is the int 1."""
    if type(b) is int and b == 1:
        return a
    if _is_exact(a) and _is_exact(b):
        return -(-a // b)
    if is_symbolic(a) or is_symbolic(b):
        import sympy

        return sympy.ceiling(sympy.sympify(a) / b)
    import numpy

    return numpy.ceil(a / b)


def floor_div(a: Size, b: Size) -> Size:
    """The largest whole number that is at most `a / b`."""
    if _is_exact(a) and _is_exact(b):
        return a // b
    if is_symbolic(a) or is_symbolic(b):
        import sympy

        return sympy.floor(sympy.sympify(a) / b)
    import numpy

    return numpy.floor(a / b)


def rounded(a: Size) -> Size:
    """The whole number next to `a`, of a number or an array; of two that are as near, the even one."""
    return a.round() if is_array(a) else round(a)


def log2(a: Size) -> Size:
    """The logarithm to base 2 of a number or an array."""
    if is_array(a):
        import numpy

        return numpy.log2(a)
    import math

    return math.log2(a)


def at_least(a: Size, b: Size) -> Size:
    """1 where `a` is at least `b`, else 0."""
    if is_symbolic(a) or is_symbolic(b):
        import sympy

        return sympy.Piecewise((1, a >= b), (0, True))
    return (a >= b) * 1


def either(test: Size, a: Size, b: Size = 0) -> Size:
    """`a` where `test` holds, a truth value or an array of them, else `b`."""
    if is_array(test):
        import numpy

        return numpy.where(test, a, b)
    return a if test else b


def maximum(a: Size, b: Size) -> Size:
    """The larger of two sizes, element by element for arrays."""
    return _extreme(a, b, "Max", "maximum", max)


def largest(values: Iterable[Size]) -> Size:
    """The largest of several sizes, 0 of none.

    Of multiples of the same formula only the largest is compared: sizes are never below 0.
    Symbols are left in one `Max` as they stand: sympy compares every pair of long formulas for seconds, in vain.
    """
    distinct = list(values)
    if any(map(is_symbolic, distinct)):
        import sympy

        most_of: dict[Any, Any] = {}
        for value in map(sympy.sympify, distinct):
            factor, rest = value.as_coeff_Mul() if value.is_nonnegative else (sympy.S.One, value)
            most_of[rest] = max(most_of.get(rest, factor), factor)
        distinct = [factor * rest for rest, factor in most_of.items() if factor]
        return sum(distinct) if len(distinct) < 2 else sympy.Max(*distinct, evaluate=False)
    most: Size = 0
    for value in distinct:
        most = maximum(most, value)
    return most


def minimum(a: Size, b: Size) -> Size:
    """The smaller of two sizes, element by element for arrays."""
    return _extreme(a, b, "Min", "minimum", min)


def _is_exact(value: Size) -> bool:
    return isinstance(value, int | Fraction)


def _extreme(a: Size, b: Size, of_sympy: str, of_numpy: str, of_python: Any) -> Size:
    if is_symbolic(a) or is_symbolic(b):
        import sympy

        return getattr(sympy, of_sympy)(a, b)
    if is_array(a) or is_array(b):
        import numpy

        return getattr(numpy, of_numpy)(a, b)
    return of_python(a, b)
