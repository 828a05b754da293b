"""Number formats and their size in memory."""

from __future__ import annotations

from typing import NamedTuple

from calc.errors import Refused


class Dtype(NamedTuple):
    """bits: of one element, without the scales that quantized formats keep beside a group of elements."""

    name: str
    bits: int


DTYPES = (
    Dtype("fp32", 32),
    Dtype("bf16", 16),
    Dtype("fp16", 16),
    Dtype("fp8", 8),
    Dtype("int8", 8),
    Dtype("int4", 4),
)
BY_NAME = {dtype.name: dtype for dtype in DTYPES}
CACHE_DTYPES = ("fp16", "bf16", "fp8", "int8", "fp32")


def dtype(name: str) -> Dtype:
    """The format called `name`. Errors: Refused for a name that is not there."""
    if name not in BY_NAME:
        raise Refused("dtype", f"one of {', '.join(BY_NAME)}", name)
    return BY_NAME[name]
