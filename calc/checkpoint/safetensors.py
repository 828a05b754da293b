"""The header of a safetensors file (huggingface/safetensors, README.md, "Format"): nothing behind it is read."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from calc.checkpoint.holdings import Held, Holdings
from calc.errors import Refused, show
from calc.reading.files import parse_json

MAX_HEADER = 100 * 10**6
"""Bytes of a header; the library that writes them refuses longer ones."""
MAX_SIZE = 2**50
WIDTHS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I8", "U8", "BOOL"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}
"""A format's name in a header -> bits of a number."""


def read_header(path: Path) -> Holdings:
    """The tensors of one file. Errors: Refused for what is no such file, or whose header does not add up."""
    with path.open("rb") as file:
        length = int.from_bytes(_exactly(file, 8, path), "little")
        if not 2 <= length <= MAX_HEADER:
            raise Refused(str(path), f"a header of 2 to {MAX_HEADER} bytes", length)
        text = _exactly(file, length, path)
    try:
        table = parse_json(text.decode("utf-8"), str(path))
    except UnicodeDecodeError:
        raise Refused(str(path), "a header in UTF-8", "other bytes") from None
    body = path.stat().st_size - 8 - length
    tensors = tuple(_tensor(name, entry, f"{path}: {name[:80]}") for name, entry in table.items() if name[:2] != "__")
    if sum(each.size for each in tensors) > body:
        raise Refused(str(path), f"tensors of {sum(each.size for each in tensors)} bytes behind its header", body)
    return Holdings("safetensors", tensors)


def _exactly(file: BinaryIO, n: int, path: Path) -> bytes:
    data = file.read(n)
    if len(data) < n:
        raise Refused(str(path), "a whole safetensors header", "the end of the file")
    return data


def _tensor(name: str, entry: Any, where: str) -> Held:
    if not isinstance(entry, dict):
        raise Refused(where, "an object", show(entry))
    form: Any = entry.get("dtype")
    shape: Any = entry.get("shape")
    offsets: Any = entry.get("data_offsets")
    if not isinstance(form, str) or form not in WIDTHS:
        raise Refused(f"{where}: dtype", f"one of {', '.join(WIDTHS)}", show(form))
    if not _numbers(shape) or len(shape) > 16 or not _numbers(offsets) or len(offsets) != 2:
        raise Refused(f"{where}: shape", "whole numbers from 0 on, and two data_offsets", show(shape))
    elements, size = prod(shape), offsets[1] - offsets[0]
    if elements > MAX_SIZE or -(-elements * WIDTHS[form] // 8) != size:
        raise Refused(f"{where}: data_offsets", f"{-(-elements * WIDTHS[form] // 8)} bytes for its shape", size)
    return Held(name, form.lower(), tuple(shape), elements, size)


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(each) is int and 0 <= each <= MAX_SIZE for each in value)
