"""Reading tables of measured times: CSV, gzip or not, from files that nobody vouches for."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calc.errors import Refused, printable

if TYPE_CHECKING:
    DataFrame = Any

MAX_BYTES = 2**28
"""Of text, unpacked."""


def read_table(path: Path, rows: int | None = None) -> DataFrame:
    """The rows of a CSV file as text, with the file's columns; or only the first `rows` of them.

    Errors: Refused for a file that is not there or above 256 MiB, that is no UTF-8, not gzip although its name says so,
    or no table with named columns and rows.
    """
    import pandas as pd

    where = str(path)
    text = _text(path, where)
    header = text.split(b"\n", 1)[0].decode("utf-8-sig", "replace").strip()
    names = [name.strip().strip('"') for name in header.split(",")]
    if len(set(names)) != len(names):
        raise Refused(where, "each column once", f"{max(names, key=names.count)[:60]!r} again")
    try:
        frame = pd.read_csv(BytesIO(text), dtype=str, keep_default_na=False, encoding="utf-8-sig", nrows=rows)
    except (ValueError, pd.errors.ParserError) as error:
        raise Refused(where, "a CSV table", printable(" ".join(str(error).split()))[:120]) from None
    if not len(frame) or list(frame.columns) != names:
        raise Refused(where, "a header and as many cells in each row", "no rows" if not len(frame) else "longer rows")
    return frame


def numbers(frame: DataFrame, column: str, where: str, least: float = 1.0, most: float = 2.0**40) -> Any:
    """A column of text as float64. Errors: Refused, naming the row, for what is no number from `least` to `most`."""
    import numpy as np
    import pandas as pd

    found = np.asarray(pd.to_numeric(frame[column], errors="coerce"), dtype=float)
    wrong = np.flatnonzero(~((found >= least) & (found <= most)))
    if len(wrong):
        place = f"{where}: row {int(frame.index[wrong[0]]) + 1}: {column}"
        raise Refused(place, f"a number from {least:g} to {most:g}", frame[column].iloc[wrong[0]][:60] or "nothing")
    return found


def only(frame: DataFrame, column: str, wanted: str | None, option: str) -> DataFrame:
    """The rows that say `wanted` in `column`, in any case. Without `wanted`, all, which must then say the same.

    Errors: Refused, naming what the table holds.
    """
    names = sorted(set(frame[column]))
    if wanted is None:
        if len(names) > 1:
            raise Refused(option, f"one of {_listed(names)}", "several in the table")
        return frame
    rows = frame[frame[column].str.lower() == wanted.lower()]
    if not len(rows):
        raise Refused(option, f"one of {_listed(names)}", wanted)
    return rows


def _listed(names: Sequence[str]) -> str:
    return ", ".join(name[:60] for name in names[:12]) + (", …" if len(names) > 12 else "")


def _text(path: Path, where: str) -> bytes:
    if not path.is_file():
        raise Refused(where, "a file", "a folder" if path.is_dir() else "no such file")
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise Refused(where, "a gzip file", "something else") from None
    except OSError as error:
        raise Refused(where, "a file that can be read", error.strerror or str(error)) from None
    if len(data) > MAX_BYTES:
        raise Refused(where, f"at most {MAX_BYTES >> 20} MiB of text", "more")
    return data
