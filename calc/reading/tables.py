"""Reading CSV tables that nobody vouches for, packed with gzip or not: whole rows, each column once, within bounds."""

from __future__ import annotations

import csv
import gzip
import zlib
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calc.errors import Refused
from calc.reading.files import repeated

if TYPE_CHECKING:
    # pandas' own types leave open whether a mask of rows gives a frame or a series: to a type checker they are unknown.
    DataFrame = Any

MAX_BYTES = 2**26
"""Of text, unpacked."""
MAX_CELLS = 2**22
"""Of a table: what is kept of each takes some hundred bytes where it is text."""
MAX_COLUMNS = 1024


def read_bytes(path: Path) -> bytes:
    """What a file holds; of NAME.gz, what it unpacks to. Errors: Refused for what is no file, or above 64 MiB."""
    where = str(path)
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


def parse_csv(data: bytes, where: str, rows: int | None = None, **reading: Any) -> DataFrame:
    """The rows of a CSV with a header line, or the first `rows` of them. reading: of `pandas.read_csv`.

    Errors: Refused for what is no UTF-8 and no table, for more than `MAX_CELLS` cells or `MAX_COLUMNS` columns, for a
    name that two columns have, and for a row that does not have as many cells as the header: pandas would fill up
    what a torn row lacks, and take for names what another has too much.
    """
    import pandas

    if data.count(b",") + data.count(b"\n") > MAX_CELLS:
        raise Refused(where, f"a table of at most {MAX_CELLS:,} cells", "more")
    try:
        _check_rows(data, where, rows)
        return pandas.read_csv(BytesIO(data), encoding="utf-8-sig", nrows=rows, **reading)
    except Refused:
        raise
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError, csv.Error, ValueError) as error:
        raise Refused(where, "a CSV file with a header line", " ".join(str(error).split())) from None


def _check_rows(data: bytes, where: str, rows: int | None) -> None:
    """Errors: Refused for a header with a name twice or too many, and for a row of another length."""
    lines = csv.reader(TextIOWrapper(BytesIO(data), encoding="utf-8-sig", newline=""), strict=True)
    # pandas passes over empty lines too.
    filled = (cells for cells in lines if len(cells) > 1 or "".join(cells).strip())
    header = next(filled, [])
    if len(header) > MAX_COLUMNS:
        raise Refused(where, f"at most {MAX_COLUMNS:,} columns", f"{len(header):,}")
    names = [name for name in header if name]
    if len(set(names)) != len(names):
        raise Refused(where, "each column once", f"{repeated(names)[:60]!r} again")
    for number, cells in enumerate(filled, 1):
        if len(cells) != len(header):
            found = "a torn one" if len(cells) < len(header) else "a longer one"
            raise Refused(f"{where}, row {number}", f"a row of {len(header)} cells", f"{found}, of {len(cells)}")
        if number == rows:
            return
