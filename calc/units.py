"""Numbers as people write and read them: "7B", "80GiB", "5.76e23 FLOP", 8.03B, 15.0 GiB."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

from calc.errors import Refused, shortened

_SI = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_BINARY = {f"{letter}i": 1024 ** (power + 1) for power, letter in enumerate("KMGTPE")}
_NUMBER = re.compile(r"\s*(\d[\d_,]*(?:\.\d+)?(?:[eE][+-]?\d{1,3})?)\s*([KMGTPE]i|[kKMGBTPE])?\s*([A-Za-z]+)?\s*")
_BYTES = re.compile(r"\s*(\d[\d_,]*(?:\.\d+)?(?:e[+-]?\d{1,3})?)\s*([kmgtpe]i?)?\s*(b|bytes)?\s*", re.I)
_BITS = re.compile(r"\s*(\d[\d_,]*(?:\.\d+)?)\s*([kMGT])(?:bps|bits?/s|b/s)\s*")
_SHARE = re.compile(r"\s*((?:\d{1,50}(?:\.\d{0,50})?|\.\d{1,50})(?:[eE][+-]?\d{1,3})?)\s*(%)?\s*")
_MAX_DIGITS = 50
_UNITS = {
    "B": "bytes",
    "bytes": "bytes",
    "FLOP": "FLOP",
    "FLOPs": "FLOP",
    "params": "parameters",
    "parameters": "parameters",
    "tokens": "tokens",
}
HOUR = 3600.0
"""Seconds."""
_PF_DAYS = re.compile(r"(.*\d)\s*PF-?days?\s*", re.IGNORECASE)
_PF_DAY = 10**15 * 24 * 3600


def parse_amount(text: str, unit: str, field: str = "value") -> int | float:
    """The number that `text` gives in `unit` ("parameters", "tokens", "FLOP" or "bytes"): "7B", "1.5e9", "80GiB",
    "1e21 FLOP", "3.6e3 PF-days" (8.64e19 FLOP each).

    "GB" is 10^9 bytes and "GiB" 2^30; a bare "B" is a billion, but a byte where bytes are meant. A whole number comes
    back as the exact int ("8.03B" is 8,030,000,000), any other as a float.
    Errors: Refused for anything else, a unit of another kind and numbers from 1e50 on included.
    """
    days = _PF_DAYS.fullmatch(text) if unit == "FLOP" else None
    match = _NUMBER.fullmatch(days[1] if days else text)
    if match is None or (days and match[3]):
        raise Refused(field, f"a number of {unit} such as {_EXAMPLE[unit]}", text)
    digits, prefix, name = match.groups()
    prefix = prefix or ""
    if name is None and prefix == "B" and unit == "bytes":
        prefix = ""
    if name is not None and _UNITS.get(name) != unit:
        raise Refused(field, f"{unit}", text)
    factor = (_BINARY.get(prefix) or _SI[prefix]) * (_PF_DAY if days else 1)
    plain = digits.replace(",", "").replace("_", "")
    # The length first: Python does not read an int of thousands of digits at all.
    if len(plain) > _MAX_DIGITS or (amount := Fraction(plain) * factor) >= 10**_MAX_DIGITS:
        raise Refused(field, f"a number below 1e{_MAX_DIGITS}, in at most {_MAX_DIGITS} digits", shortened(text, 40))
    return amount.numerator if amount.denominator == 1 else float(amount)


_EXAMPLE = {
    "parameters": '"7B" or "6.9e9"',
    "tokens": '"1.4T" or "15e12"',
    "FLOP": '"5.76e23 FLOP"',
    "bytes": '"80GiB" or "1e9"',
}


def parse_bytes(text: str, field: str) -> int:
    """A whole number of bytes above 0, with its unit: "80GiB", "80 gib", "80 GB", "512B".

    Errors: Refused for anything else, a number alone included: nobody means 80 bytes.
    """
    match = _BYTES.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        raise Refused(field, "a number of bytes with its unit, such as 80GiB", shortened(text, 40))
    if match[2] and match[2][0].isupper() and match[3] == "b":
        raise Refused(field, "bytes, as 50GB: a small b stands for bits", shortened(text, 40))
    prefix = (match[2] or "").upper().replace("I", "i")
    amount = int(parse_amount(f"{match[1]}{prefix}B", "bytes", field))
    if amount < 1:
        raise Refused(field, "bytes above 0", text)
    return amount


def parse_rate(text: str, field: str) -> float:
    """Bytes a second, above 0: "50GB/s", "50GB", or in bits as links are named, "400Gbps", "400 Gbit/s", "400Gb/s".

    Errors: as `parse_bytes`.
    """
    bits = _BITS.fullmatch(text)
    if bits is None and re.fullmatch(r"[\d.,]+", text.strip()):
        raise Refused(field, "a rate with its unit, such as 50GB/s or 400Gbps", shortened(text, 40))
    if bits is None:
        return float(parse_bytes(text.strip().removesuffix("/s"), field))
    return parse_bytes(f"{bits[1]}{bits[2]}B", field) / 8


def parse_tokens(text: str, field: str, least: int = 0) -> int:
    """A whole number of tokens from `least` to 2^40: "4096", "1_000", "8Ki" (8192).

    Errors: Refused for anything else, and for "8k": people mean both 8000 and 8192.
    """
    match = re.fullmatch(r"(-?\d[\d_,]*)(Ki|Mi)?", text.strip())
    if match is None:
        hint = ' ("8Ki" is 8192; "8k" could be either)' if re.fullmatch(r"\d+[kKmM]", text.strip()) else ""
        raise Refused(field, f"a whole number{hint}", shortened(text, 40))
    plain = match[1].replace(",", "").replace("_", "")
    if len(plain) <= _MAX_DIGITS and least <= (number := int(plain) * _BINARY.get(match[2] or "", 1)) <= 2**40:
        return number
    raise Refused(field, f"a whole number from {least} to 2^40", shortened(text, 40))


def whole(value: Any) -> str:
    """All digits of a count, and of an expectation those before the point: 1,234."""
    return f"{value:,.0f}" if isinstance(value, float) else f"{value:,}"


def four(value: float) -> str:
    """Four digits that tell; of what people count, all before the point: 0.1235, 1,234,567, 1.235e+21."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e12 else f"{value:,.4g}"


def si(value: float, unit: str = "") -> str:
    """Three significant digits with an SI prefix: 8.03G, 48.2 TFLOP. Parameters say B for G, as people do."""
    for factor, prefix in (
        (1e24, "Y"),
        (1e21, "Z"),
        (1e18, "E"),
        (1e15, "P"),
        (1e12, "T"),
        (1e9, "G"),
        (1e6, "M"),
        (1e3, "k"),
    ):
        if abs(value) >= 999.5e24:
            return f"{value:.3g} {unit}".strip()
        if abs(value) >= factor * 0.9995:
            scaled = value / factor
            return f"{_three(scaled)} {prefix}{unit}" if unit else f"{_three(scaled)}{'B' if prefix == 'G' else prefix}"
    return f"{value:,.0f} {unit}".strip()


def speed(value: float, digits: int = 0) -> str:
    """A number with so many digits behind the point, or of less than ten in three that tell."""
    return f"{value:,.{digits}f}" if value >= 10 else f"{value:.3g}"


def binary(n_bytes: float) -> str:
    """Three significant digits with a binary prefix: 15.0 GiB."""
    for power, prefix in ((5, "Pi"), (4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
        if abs(n_bytes) >= 1024**power * 0.9995:
            return f"{_three(n_bytes / 1024**power)} {prefix}B"
    return f"{n_bytes:,.0f} B"


def duration(seconds: float) -> str:
    """Three significant digits with the unit that suits: 12.3 µs, 4.56 ms, 7.89 s, 1,234 s."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        scaled = seconds / factor
        if scaled >= 0.9995:
            return f"{_three(scaled)} {unit}"
    return f"{_three(seconds * 1e9)} ns"


def _three(value: float) -> str:
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:,.{digits}f}"


def parse_share(text: str, field: str) -> Fraction:
    """A share above 0 and up to 1, exact: "0.9" or "90%". Errors: Refused for anything else."""
    match = _SHARE.fullmatch(text)
    share = Fraction(0) if match is None else Fraction(match[1]) / (100 if match[2] else 1)
    if not 0 < share <= 1:
        raise Refused(field, "a share above 0 and up to 1, such as 0.4 or 40%", shortened(text, 40))
    return share


def parse_price(text: str, field: str) -> float:
    """Money an hour from text such as "2/h" or "2.5". Errors: Refused for what is no price from 0 on."""
    try:
        value = float(text.strip().removeprefix("$").removesuffix("/h"))
    except ValueError:
        value = math.nan
    if not 0 <= value < 1e9:
        raise Refused(field, "a price an hour such as 2/h", text)
    return value
