"""Number formats and their size in memory, plain and quantized."""

from __future__ import annotations

import re
from typing import NamedTuple

from calc.errors import Refused
from calc.sizes import Size, ceil_div

_QUANTIZED = re.compile(
    r"(?P<code>\w+):(?:g(?P<group>[1-9]\d{0,8})|row)(?P<zero>:zero)?(?::scale=(?P<scale>\w+))?(?::rest=(?P<rest>\w+))?"
)


class Dtype(NamedTuple):
    """bits: of one element, without the scales that quantized formats keep beside a group of elements."""

    name: str
    bits: int

    @property
    def width(self) -> int:
        """Bytes of one element. Errors: Refused for a format that packs several into a byte."""
        if self.bits % 8:
            raise Refused("dtype", "a format of whole bytes", self.name)
        return self.bits // 8


DTYPES = (
    Dtype("fp32", 32),
    Dtype("bf16", 16),
    Dtype("fp16", 16),
    Dtype("fp8", 8),
    Dtype("int8", 8),
    Dtype("fp4", 4),
    Dtype("int4", 4),
)
BY_NAME = {dtype.name: dtype for dtype in DTYPES}
CACHE_DTYPES = ("fp16", "bf16", "fp8", "int8", "fp32")
CODES = {"int8": 8, "int4": 4, "nf4": 4, "fp8": 8}
"""Formats of quantized elements -> bits. nf4 looks its 16 values up (Dettmers et al. 2023, arXiv:2305.14314)."""
VECTOR = 16
"""Bytes that the fastest kernels of GPUs read and write at a time."""
GRAMMAR = (
    f"of {', '.join(CODES)} as FORMAT:gN or FORMAT:row, then :zero, :scale=FORMAT, :rest=FORMAT as wanted, "
    "such as int4:g128 or nf4:g64"
)


class Quantized(NamedTuple):
    """A format of matrices [out, in] whose elements share a scale, and perhaps a zero point, in groups along a row.

    code: the format of one element. group: elements of one group, the last of a row perhaps fewer; None: the whole row.
    scale: the plain format of scales. zero: whether each group has a zero point, as wide as an element.
    rest: the plain format of every tensor that is not quantized.
    """

    name: str
    code: str
    group: int | None
    scale: str = "fp16"
    zero: bool = False
    rest: str = "bf16"

    def matrix_bytes(self, rows: Size, columns: Size) -> Size:
        """Bytes of a matrix [rows, columns]: elements and zero points packed bit by bit, then scales."""
        bits = CODES[self.code]
        groups = rows if self.group is None else rows * ceil_div(columns, self.group)
        packed = byte_count(rows * columns, bits) + byte_count(groups, dtype(self.scale).bits)
        return packed + byte_count(groups, bits) if self.zero else packed


def dtype(name: str) -> Dtype:
    """The format called `name`. Errors: Refused for a name that is not there."""
    if name not in BY_NAME:
        raise Refused("dtype", f"one of {', '.join(BY_NAME)}", name)
    return BY_NAME[name]


def weight_dtype(name: str, field: str = "dtype") -> Dtype | Quantized:
    """The format of weights that `name` says: a plain one, or a quantized one by `GRAMMAR`.

    Errors: Refused, for `field`.
    """
    known = f"one of {', '.join(BY_NAME)}, or {GRAMMAR}"
    if not isinstance(name, str):
        raise Refused(field, known, name)
    if name in BY_NAME:
        return BY_NAME[name]
    match = _QUANTIZED.fullmatch(name)
    if match is None or match["code"] not in CODES:
        raise Refused(field, known, name)
    plain = {key: match[key] for key in ("scale", "rest") if match[key] is not None}
    for key, value in plain.items():
        if value not in BY_NAME or BY_NAME[value].bits < 8 or value == "int8":
            raise Refused(field, f"a floating-point format as {key}", name)
    zero = match["zero"] is not None
    if zero and not match["code"].startswith("int"):
        raise Refused(field, "zero points beside int8 or int4 only", name)
    return Quantized(name, match["code"], None if match["group"] is None else int(match["group"]), zero=zero, **plain)


def byte_count(elements: Size, bits: int) -> Size:
    """Bytes of `elements` packed elements; what is left of the last byte stays empty."""
    return elements * (bits // 8) if bits % 8 == 0 else ceil_div(elements * bits, 8)


def misaligned(length: Size, width: float) -> bool:
    """Whether rows of `length` elements of `width` bytes are no multiple of what GPUs read at a time; numbers alone."""
    return length * width % VECTOR != 0
