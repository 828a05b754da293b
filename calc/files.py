"""Reading small text files that nobody vouches for: JSON and TOML, with a bound on size and depth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, BinaryIO

from calc.errors import Refused, show

MAX_BYTES = 16 * 2**20


def read_text(path: Path, limit: int = MAX_BYTES) -> str:
    """The text of a file. Errors: Refused for a folder, a file above `limit`, one that is not there or not UTF-8."""
    where = str(path)
    try:
        if path.is_dir():
            raise Refused(where, "a file", "a folder")
        if not path.is_file():
            raise Refused(where, "a file", "something else" if path.exists() else "no such file")
        with path.open("rb") as file:
            return read_stream(file, where, limit)
    except OSError as error:
        raise Refused(where, "a file that can be read", error.strerror or str(error)) from None
    except ValueError as error:
        if isinstance(error, Refused):
            raise
        raise Refused(where, "a path", str(error)) from None


def read_stream(stream: BinaryIO, where: str, limit: int = MAX_BYTES) -> str:
    """The rest of a stream as text. Errors: Refused above `limit` bytes or where it is not UTF-8."""
    data = stream.read(limit + 1)
    if len(data) > limit:
        raise Refused(where, f"at most {limit // 2**20} MB", "more")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused(where, "UTF-8 text", f"byte 0x{data[error.start]:02x} at {error.start}") from None


def parse_json(text: str, where: str) -> dict[str, Any]:
    """The object that a JSON text holds. Errors: Refused for anything else, repeated keys included.

    NaN and infinities, which published configs hold in fields that no count needs, are read; whoever needs a number
    refuses them.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            keys = [key for key, _ in pairs]
            raise Refused(f"{where}: {max(keys, key=keys.count)[:60]}", "each key once", "the key again")
        return found

    try:
        value = json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise Refused(where, "JSON", f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise Refused(where, "JSON", "objects nested too deep") from None
    except Refused:
        raise
    except ValueError:
        raise Refused(where, "numbers of a sane length", "an integer of thousands of digits") from None
    if not isinstance(value, dict):
        raise Refused(where, "a JSON object", show(value))
    return value


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """The table that a TOML text holds. Errors: Refused for anything else."""
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Refused(where, "TOML", str(error)) from None
    except RecursionError:
        raise Refused(where, "TOML", "tables nested too deep") from None
    except ValueError:
        raise Refused(where, "numbers of a sane length", "an integer of thousands of digits") from None
