"""Traces of real requests: Azure's, BurstGPT's, Mooncake's and one's own, each line checked."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from calc.errors import Refused
from calc.serve.work import LONGEST

COLUMNS = {
    "sent": ("sent", "timestamp", "arrival", "arrival_time", "time"),
    "input": ("input", "contexttokens", "request tokens", "input_length", "input_toks", "prompt_tokens"),
    "output": ("output", "generatedtokens", "response tokens", "output_length", "output_toks", "output_tokens"),
}
"""What a row tells -> names of its column, in any case: one's own, Azure's (github.com/Azure/AzurePublicDataset),
BurstGPT's (github.com/HPMLL/BurstGPT), Mooncake's (github.com/kvcache-ai/Mooncake, milliseconds)."""
HASHES = "hash_ids"
"""The column by which a trace is known as Mooncake's."""
BLOCK = 512
"""Tokens of a block that a hash of Mooncake's stands for."""
LINE = 2**20


class Row(NamedTuple):
    """One request of a trace. sent: seconds."""

    sent: float
    input: int
    output: int
    hashes: tuple[int, ...] = ()


def rows(file: Path) -> Iterator[Row]:
    """The rows of a trace, .csv or .jsonl, perhaps .gz. Errors: Refused for a file or a line that is none."""
    opened = gzip.open if file.suffix == ".gz" else open
    kind = Path(file.stem).suffix if file.suffix == ".gz" else file.suffix
    if kind not in (".csv", ".jsonl"):
        raise Refused("--trace", "a file that ends in .csv or .jsonl, perhaps .gz", file.name)
    if not file.is_file():
        raise Refused("--trace", "a file", f"{file}: {'a folder' if file.is_dir() else 'no such file'}")
    try:
        # Tables that Excel saves begin with a mark of their encoding.
        with opened(file, "rt", encoding="utf-8-sig", newline="") as lines:  # type: ignore[operator]
            yield from _jsonl(lines) if kind == ".jsonl" else _csv(lines)
    except UnicodeDecodeError as error:
        raise Refused("--trace", "UTF-8 text", f"byte 0x{error.object[error.start]:02x}") from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise Refused("--trace", "a gzip file", f"{file}: another, or a part of one") from None
    except csv.Error as error:
        raise Refused("--trace", "rows of CSV", str(error)) from None
    except OSError as error:
        raise Refused("--trace", "a file that can be read", f"{file}: {error.strerror or error}") from None


def _jsonl(lines: Any) -> Iterator[Row]:
    hashed: bool | None = None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        table = _object(number, line)
        if hashed is None:
            hashed = HASHES in table
        if hashed is not (HASHES in table):
            raise Refused(f"line {number}", f"{HASHES} in every line or in none", ", ".join(table)[:60])
        row = _row(number, table)
        if hashed:
            # Mooncake counts milliseconds.
            row = row._replace(sent=row.sent / 1000, hashes=_hashes(number, table[HASHES]))
        yield row


def _object(number: int, line: str) -> dict[str, Any]:
    if len(line) > LINE:
        raise Refused(f"line {number}", f"at most {LINE:,} characters", "more")
    try:
        table = json.loads(line)
    except (ValueError, RecursionError):
        table = None
    if not isinstance(table, dict):
        raise Refused(f"line {number}", "a JSON object", line.strip()[:40])
    return {str(key).lower(): value for key, value in table.items()}


def _hashes(number: int, found: Any) -> tuple[int, ...]:
    if not isinstance(found, list) or not all(type(each) is int for each in found):
        raise Refused(f"line {number}: {HASHES}", "whole numbers", str(found)[:40])
    return tuple(found)


def _csv(lines: Any) -> Iterator[Row]:
    for number, cells in enumerate(csv.DictReader(lines), 2):
        table = {str(key).strip().lower(): value for key, value in cells.items()}
        if HASHES in table:
            raise Refused("--trace", f"JSON lines where there are {HASHES}", "a .csv")
        yield _row(number, table)


def _row(number: int, table: Mapping[str, Any]) -> Row:
    found = {}
    for name, spellings in COLUMNS.items():
        key = next((each for each in spellings if each in table), None)
        if key is None:
            raise Refused(f"line {number}", f"a column {name} (or {', '.join(spellings[1:])})", ", ".join(table)[:60])
        found[name] = _seconds(number, table[key]) if name == "sent" else _count(number, name, table[key])
    return Row(**found)


def _count(number: int, name: str, value: Any) -> int:
    try:
        count = int(value)
    except (TypeError, ValueError):
        count = 0
    if not 1 <= count <= LONGEST:
        raise Refused(f"line {number}: {name}", f"tokens from 1 to {LONGEST:,}", str(value)[:40])
    return count


def _seconds(number: int, value: Any) -> float:
    """A time as seconds, or as a date."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        try:
            # Seven digits of a fraction, as Azure writes them, are one more than dates have.
            found = datetime.fromisoformat(str(value)[:26]).timestamp()
        except ValueError:
            found = float("nan")
    if not abs(found) < 1e15:
        raise Refused(f"line {number}: sent", "seconds, or a date", str(value)[:40])
    return found
