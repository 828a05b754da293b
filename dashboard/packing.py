"""A description in a link: packed into the address where it is short, and unpacked with a bound on its size."""

from __future__ import annotations

import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Any

from calc.errors import Refused
from calc.reading.files import parse_json

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


def form(text: str) -> str:
    """`json` or `toml`, whichever a description is in: what parses as JSON is no TOML, even where it is no object."""
    import json

    if text.lstrip().startswith("{"):
        return "json"
    try:
        json.loads(text)
    except RecursionError:
        return "json"
    except ValueError:
        return "toml"
    return "json"


def compact(text: str, form: str) -> str:
    """The same description in fewer letters. Errors: Refused for JSON that holds no object."""
    if form != "json":
        return text
    import json

    return json.dumps(_unnamed(parse_json(text, "config.json")), separators=(",", ":"))


def _unnamed(config: dict[str, Any]) -> dict[str, Any]:
    """A config without the names of its classes: only how many there are counts. Its sections likewise."""
    plain = {key: _unnamed(value) if isinstance(value, dict) else value for key, value in config.items()}
    names, number = config.get("id2label"), config.get("num_labels")
    # A number that is not the names' own is left beside them: whoever reads it refuses it.
    if isinstance(names, dict) and names and (number is None or (type(number) is int and number == len(names))):
        plain |= {"num_labels": len(names)}
        del plain["id2label"]
    if isinstance(config.get("label2id"), dict):
        del plain["label2id"]
    return plain


def digest(text: str) -> str:
    """Twelve digits that tell one description from another."""
    return sha256(text.encode()).hexdigest()[:12]
