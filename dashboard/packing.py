"""A description in a link: packed into the address where it is short, and unpacked with a bound on its size."""

from __future__ import annotations

import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256

from calc.errors import Refused
from calc.files import parse_json

MAX_TEXT = 256 * 1024
"""Bytes of a description that is read at all."""
MAX_PACKED = 4096
"""Characters that a link may hold."""


def pack(text: str) -> str | None:
    """`text` as letters that an address may hold; None where it would be more than 4,096 of them."""
    packed = urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")
    return packed if len(packed) <= MAX_PACKED else None


def unpack(packed: str) -> str:
    """What `pack` was given. Errors: Refused for anything else, above all for what would grow beyond `MAX_TEXT`."""
    field = "the description in the link"
    if len(packed) > MAX_PACKED:
        raise Refused(field, f"at most {MAX_PACKED:,} characters", f"{len(packed):,}")
    try:
        raw = urlsafe_b64decode(packed.encode("ascii") + b"=" * (-len(packed) % 4))
        reader = zlib.decompressobj()
        data = reader.decompress(raw, MAX_TEXT)
        if reader.unconsumed_tail or not reader.eof:
            raise Refused(field, f"a whole one of at most {MAX_TEXT // 1024} KiB", "more, or a part of one")
        return data.decode()
    except Refused:
        raise
    except (ValueError, zlib.error):
        raise Refused(field, "letters that this dashboard has packed", packed) from None


def compact(text: str, form: str) -> str:
    """The same description in fewer letters. Errors: Refused for JSON that holds no object."""
    if form != "json":
        return text
    import json

    return json.dumps(parse_json(text, "config.json"), separators=(",", ":"))


def digest(text: str) -> str:
    """Twelve digits that tell one description from another."""
    return sha256(text.encode()).hexdigest()[:12]
