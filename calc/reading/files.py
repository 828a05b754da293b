"""Small text files: reading JSON and TOML that nobody vouches for, with a bound on size, depth and number of keys; and
writing whole files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from calc.errors import Refused, show

MAX_BYTES = 16 * 2**20
MAX_TOML = 2**20
"""Characters of TOML that are read at all: the library that reads it takes a hundred times as much memory."""
MAX_DEPTH = 64
"""Levels of objects, tables and lists within each other, and parts of a dotted key."""
MAX_KEYS = 2**16
"""Keys, dots and brackets in a TOML text, each of which makes a table of the reader's own."""

# Texts without an end are taken to the end, so that no place is read twice.
_TOML_PIECE = re.compile(
    r"""
      (?P<text> "{3} (?: [^"\\] | \\.? | "(?!"") )*+ (?: "{3,5}+ | \Z )
              | '{3} (?: [^'] | '(?!'') )*+ (?: '{3,5}+ | \Z )
              | "(?: [^"\\\n] | \\[^\n] )*+ "?
              | '[^'\n]*+ '?
              | \#[^\n]*+
              | [A-Za-z0-9_-]++ )
    | (?P<open> [\[{] ) | (?P<close> [\]}] ) | (?P<dot> \. ) | (?P<equals> = ) | (?P<end> [,\n] )
    """,
    re.VERBOSE | re.DOTALL,
)


def read_text(path: Path, limit: int = MAX_BYTES) -> str:
    """The text of a file. Errors: Refused for a folder, a file above `limit`, one that is not there or not UTF-8."""
    with readable(path) as file:
        return read_stream(file, str(path), limit)


@contextmanager
def readable(path: Path, kind: str = "a file") -> Iterator[BinaryIO]:
    """A file, open. Errors: Refused for what is no file, and for one that cannot be opened or read."""
    where = str(path)
    try:
        if not path.is_file():
            found = "a folder" if path.is_dir() else "something else" if path.exists() else "no such file"
            raise Refused(where, kind, found)
        with path.open("rb") as file:
            yield file
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


def write_whole(path: Path, text: str) -> None:
    """Put a text in the place of a file in one step, once it is on the disk: nobody ever reads half of it, and where
    that fails the file is as it was. Errors: OSError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def parse_json(text: str, where: str) -> dict[str, Any]:
    """The object that a JSON text holds. Errors: Refused for anything else, repeated keys included.

    NaN and infinities, which published configs hold in fields that no count needs, are read; whoever needs a number
    refuses them.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise Refused(f"{where}: {repeated(key for key, _ in pairs)[:60]}", "each key once", "the key again")
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
    _bound_depth(value, where)
    return value


def repeated(names: Iterable[str]) -> str:
    """The first of `names` that was there before; one of them must have been."""
    seen: set[str] = set()
    return next(name for name in names if name in seen or seen.add(name))


def _bound_depth(value: Any, where: str) -> None:
    """Errors: Refused where lists and objects lie deeper in each other than whoever walks through them could go."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [one for each in inner for one in each if isinstance(one, dict | list)]
        if not level:
            return
    raise Refused(where, f"at most {MAX_DEPTH} levels", "objects nested too deep")


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """The table that a TOML text holds.

    Errors: Refused for anything else, and for what is larger, deeper or of more keys than any description: the library
    that reads it takes time and memory by the square of a dotted key's parts.
    """
    import tomllib

    if len(text) > MAX_TOML:
        raise Refused(where, f"at most {MAX_TOML // 2**20} MB of TOML", "more")
    _bound_toml(text, where)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Refused(where, "TOML", str(error)) from None
    except RecursionError:
        raise Refused(where, "TOML", "tables nested too deep") from None
    except ValueError:
        raise Refused(where, "numbers of a sane length", "an integer of thousands of digits") from None


def _bound_toml(text: str, where: str) -> None:
    """Errors: Refused for too many keys or levels, found in one pass over the text, which need not be right."""
    depth = dots = pieces = 0
    for match in _TOML_PIECE.finditer(text):
        kind = match.lastgroup
        if kind == "text":
            continue
        pieces += kind != "end"
        depth += (kind == "open") - (kind == "close")
        dots = dots + 1 if kind == "dot" else 0
        if max(depth, dots) >= MAX_DEPTH:
            raise Refused(where, f"at most {MAX_DEPTH} levels", "tables nested too deep")
        if pieces > MAX_KEYS:
            raise Refused(where, f"at most {MAX_KEYS:,} keys and tables", "more")
