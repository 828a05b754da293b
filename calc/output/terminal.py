"""Terminals that do not know every sign: a sign that they lack is written with those that they have."""

from __future__ import annotations

import codecs
import sys
import unicodedata
from io import TextIOWrapper

SIGNS = {"–": "-", "−": "-", "…": "...", "·": "*", "µ": "u", "×": "x", "←": "<-", "→": "->", "≤": "<=", "≥": ">="}
SIGNS |= {"±": "+-", "≈": "~", "∞": "inf", "“": '"', "”": '"', "‘": "'", "’": "'"}
"""Signs of our own texts and of names that people give -> the same in ASCII."""


def degrade_signs() -> None:
    """Have stdout and stderr write what their encoding lacks as well as it can be, where they would fail."""
    codecs.register_error("envelope", _nearest)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="envelope")


def _nearest(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(map(_in_ascii, lacking)), error.end


def _in_ascii(sign: str) -> str:
    """What a reader takes for the sign: ours as listed, a letter without its accent, and else a question mark."""
    plain = unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode()
    return SIGNS.get(sign) or plain or "?"
