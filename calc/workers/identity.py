"""What tells two pieces of work apart: the code, with its data, and what was asked."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any


def digest(*pieces: bytes) -> str:
    """A name of sixteen digits for some bytes."""
    found = hashlib.sha256()
    for piece in pieces:
        found.update(len(piece).to_bytes(8, "big") + piece)
    return found.hexdigest()[:16]


def canonical(described: Any) -> bytes:
    """JSON that is the same for the same values. Errors: TypeError for what JSON does not have."""
    return json.dumps(described, sort_keys=True, separators=(",", ":")).encode()


@cache
def code() -> str:
    """The digest of every file of this package, constants and presets too."""
    home = Path(__file__).parents[1]
    files = sorted(file for file in home.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return digest(*(piece for file in files for piece in (str(file.relative_to(home)).encode(), file.read_bytes())))
