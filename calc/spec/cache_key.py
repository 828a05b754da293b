"""What a cache remembers a description by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class CacheKey(Generic[T]):
    """A key of a cache that stands for one object: equal to itself alone.

    Descriptions whose sizes are equal may hold numbers of other kinds, 4096 and 4096.0, of which other kinds of numbers
    come out; and comparing long ones takes longer than what is remembered.
    """

    value: T

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CacheKey) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)
