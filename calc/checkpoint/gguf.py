"""The header of a GGUF file (ggml, docs/gguf.md, versions 2 and 3): names, shapes and formats of its tensors."""

from __future__ import annotations

import struct
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from calc.checkpoint.holdings import Held, Holdings
from calc.errors import Refused
from calc.reading.files import parse_toml, read_text

TYPES = Path(__file__).parents[1] / "data" / "gguf.toml"
MAX_TENSORS, MAX_KEYS, MAX_TEXT, MAX_ITEMS, MAX_SIZE = 2**17, 2**16, 2**20, 2**22, 2**50
SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""The number of a metadata value's type -> its bytes, where that is fixed."""
TEXT, LIST = 8, 9


@cache
def types() -> dict[int, tuple[str, int, int]]:
    """GGML's number of a format -> its name, elements of a block, and bytes that a block takes."""
    table: Any = parse_toml(read_text(TYPES), "gguf.toml")["types"]
    return {int(number): (one["name"], one["elements"], one["bytes"]) for number, one in table.items()}


def read_header(path: Path) -> Holdings:
    """The tensors of one file. Errors: Refused for what is no such file, or a format that has no size here."""
    with path.open("rb") as file:
        reader = _Reader(file, path)
        if reader.take(4) != b"GGUF":
            raise Refused(str(path), "a GGUF file", "one that begins with other letters")
        if (version := reader.number(4)) not in (2, 3):
            raise Refused(str(path), "GGUF version 2 or 3, little-endian", version)
        n_tensors, n_keys = reader.bounded(MAX_TENSORS, "tensors"), reader.bounded(MAX_KEYS, "keys")
        for _ in range(n_keys):
            reader.text()
            reader.skip_value(reader.number(4))
        tensors = tuple(_tensor(reader) for _ in range(n_tensors))
    return Holdings("gguf", tensors)


class _Reader:
    """A file read piece by piece, each within bounds."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.file, self.path = file, path

    def take(self, n: int) -> bytes:
        data = self.file.read(n)
        if len(data) < n:
            raise Refused(str(self.path), "a whole GGUF header", "the end of the file")
        return data

    def number(self, width: int) -> int:
        return struct.unpack("<I" if width == 4 else "<Q", self.take(width))[0]

    def bounded(self, most: int, what: str) -> int:
        if (found := self.number(8)) > most:
            raise Refused(str(self.path), f"at most {most} {what}", found)
        return found

    def text(self) -> str:
        data = self.take(self.bounded(MAX_TEXT, "bytes of a text"))
        return data.decode("utf-8", errors="replace")

    def skip_value(self, kind: int) -> None:
        """Pass over one value of metadata; lists hold no lists."""
        if kind in SCALARS:
            self.take(SCALARS[kind])
        elif kind == TEXT:
            self.text()
        elif kind == LIST:
            inner, n = self.number(4), self.bounded(MAX_ITEMS, "items of a list")
            if inner == TEXT:
                for _ in range(n):
                    self.text()
            elif inner in SCALARS:
                self.take(SCALARS[inner] * n)
            else:
                raise Refused(str(self.path), "lists of numbers or texts", f"of type {inner}")
        else:
            raise Refused(str(self.path), "a type of value from 0 to 12", kind)


def _tensor(reader: _Reader) -> Held:
    name = reader.text()
    where = f"{reader.path}: {name[:80]}"
    dimensions = reader.number(4)
    if not 0 < dimensions <= 4:
        raise Refused(where, "1 to 4 dimensions", dimensions)
    shape = tuple(reader.bounded(MAX_SIZE, "elements along one side") for _ in range(dimensions))
    kind = reader.number(4)
    reader.number(8)  # where it begins
    if kind not in types():
        raise Refused(f"{where}: type", f"one of the numbers {', '.join(map(str, types()))}", kind)
    form, block, size = types()[kind]
    elements = prod(shape)
    # The first dimension is the one along a row, which blocks cut.
    if elements > MAX_SIZE or shape[0] % block:
        raise Refused(f"{where}: shape", f"rows of a multiple of {block} elements in {form}", shape[0])
    return Held(name, form, shape[::-1], elements, elements // block * size)
