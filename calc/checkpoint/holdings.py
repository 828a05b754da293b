"""What a file of weights holds, whatever its format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Held(NamedTuple):
    """One tensor in a file. elements: numbers that it stands for where the file says so: a packed matrix of
    safetensors has as many as it has words. size: bytes."""

    name: str
    form: str
    shape: tuple[int, ...]
    elements: int
    size: int


class Holdings(NamedTuple):
    """All tensors of the files of a checkpoint."""

    kind: str
    tensors: tuple[Held, ...]

    @property
    def size(self) -> int:
        """Bytes of all tensors, headers left out."""
        return sum(each.size for each in self.tensors)

    @property
    def elements(self) -> int:
        return sum(each.elements for each in self.tensors)

    @property
    def by_form(self) -> dict[str, tuple[int, int, int]]:
        """(tensors, elements, bytes) by the name of the number format, the largest first."""
        made: dict[str, tuple[int, int, int]] = {}
        for each in self.tensors:
            n, elements, size = made.get(each.form, (0, 0, 0))
            made[each.form] = (n + 1, elements + each.elements, size + each.size)
        return dict(sorted(made.items(), key=lambda item: -item[1][2]))


def joined(parts: Iterable[Holdings], kind: str) -> Holdings:
    """Several files as one."""
    return Holdings(kind, tuple(each for part in parts for each in part.tensors))
