"""Number formats of served weights: how many bits a weight takes, and in which format products run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from calc.errors import Refused
from calc.reading.files import parse_toml, read_text
from calc.spec.hardware import Device

FILE = Path(__file__).parents[1] / "data" / "serving" / "formats.toml"
CACHE_BITS = {"bf16": 16, "fp16": 16, "fp8": 8, "int8": 8, "nvfp4": 4.5}
"""Formats of keys and values -> bits of an element, scales of nvfp4 with it."""
_GROUPED = re.compile(r"(int4|int8):g([1-9]\d{0,4})(:experts)?")
_GGUF = re.compile(r"gguf:(\d{1,2}(?:\.\d{1,4})?)")


@dataclass(frozen=True, slots=True)
class Format:
    """bits: of a weight with its scales. compute: formats of products, best first. experts: only experts are in it
    where a model has any; the rest takes `rest` bits. head: bits of a weight of the head. code: format of one weight
    where others share its scale. gguf: whether it is of GGUF files."""

    name: str
    bits: float
    compute: tuple[str, ...]
    experts: bool = False
    source: str = ""
    rest: float = 16.0
    head: float = 16.0
    code: str = ""
    gguf: bool = False

    @property
    def kind(self) -> str:
        """What engines say whether they load it: a kind of files, or of scales of whatever size of groups."""
        return "gguf" if self.gguf else f"{self.code}:g" if self.code else self.name

    @property
    def of_kernels(self) -> str:
        """What tables of kernels call it, whatever the size of its groups."""
        return self.code or self.name

    def computes(self, device: Device) -> str:
        """The format in which products run on a device: the first that it has a peak for."""
        return next((name for name in self.compute if name in device.known_peaks), "bf16")


@cache
def formats() -> dict[str, Format]:
    """The formats of the data file, by name."""
    table = parse_toml(read_text(FILE), FILE.name)
    return {name: Format(name, **{**own, "compute": tuple(own["compute"])}) for name, own in table.items()}


def served_format(name: str) -> Format:
    """The format called `name`.

    `int4:gN` and `int8:gN` share a scale of 16 bits among N weights: all matrices of layers but routers, as `memory`
    counts them (GPTQ, AWQ), or with `:experts` those of experts alone (Kimi-K2.5). `gguf:B` is a GGUF file of B bits a
    weight, whatever blocks it mixes.

    Errors: Refused, with the known names.
    """
    file = _GGUF.fullmatch(name)
    if file is not None:
        bits = float(file[1])
        if not 1 <= bits <= 32:
            raise Refused("--dtype", "gguf:B of 1 to 32 bits a weight", name)
        compute = ("fp16", "bf16") if bits >= 16 else ("int8", "fp16", "bf16")
        return Format(name, bits, compute, source="size of a GGUF file over its weights", head=bits, gguf=True)
    match = _GROUPED.fullmatch(name)
    if match is not None:
        bits, source = 4 if match[1] == "int4" else 8, "GPTQ, AWQ, compressed-tensors: a scale in fp16 for a group"
        bits += 16 / int(match[2])
        return Format(name, bits, ("bf16",), experts=match[3] is not None, source=source, code=match[1])
    if name not in formats():
        known = f"one of {', '.join(formats())}, int4:gN (with :experts, those alone) or gguf:B"
        raise Refused("--dtype", known, name)
    return formats()[name]


def cache_bits(name: str) -> float:
    """Bits of an element of the cache. Errors: Refused, with the known names."""
    if name not in CACHE_BITS:
        raise Refused("--cache-dtype", f"one of {', '.join(CACHE_BITS)}", name)
    return CACHE_BITS[name]
