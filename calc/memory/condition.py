"""One thing that must hold for a model to be spread over GPUs as a plan says."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from calc.errors import Refused
from calc.sizes import Size, is_array, is_symbolic


class Condition(NamedTuple):
    """One thing that must hold: test(a, b). field, expected, found: as in Refused."""

    field: str
    expected: str
    found: Any
    test: Callable[[Size, Size], Any]
    a: Size
    b: Size

    @property
    def is_open(self) -> bool:
        """Whether nothing can be said: of symbols, and of fractions, which lie between whole sizes."""
        return any(is_symbolic(size) or isinstance(size, Fraction) for size in (self.a, self.b))

    @property
    def of_rows(self) -> bool:
        """Whether it is asked of every row of an array."""
        return not self.is_open and (is_array(self.a) or is_array(self.b))


def must_be_one(field: str, expected: str, size: Size) -> Condition:
    """What a size of 1 alone fulfils, of columns. Errors: Refused for any other size."""
    if not is_array(size):
        raise Refused(field, expected, size)
    return Condition(field, expected, size, at_most, size, 1)


def divides(part: Size, whole: Size) -> Any:
    """Whether `whole` is a multiple of `part`."""
    if is_array(part) or is_array(whole):
        times = whole / part  # exact where it divides, and much faster than %
        return times == times // 1
    return whole % part == 0


def at_most(size: Size, most: Size) -> Any:
    return size <= most


def size_text(size: Size) -> str:
    """A size in a message; nobody reads an array's."""
    return "its rows" if is_array(size) else str(size)
