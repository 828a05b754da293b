"""Reading tables of measured times: CSV, gzip or not, from files that nobody vouches for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calc.errors import Refused
from calc.reading.tables import parse_csv, read_bytes

if TYPE_CHECKING:
    DataFrame = Any
NEAR = 0.02
"""Part of the least time that a device can take from which on a measured time may be one; caches explain a few fold."""


def read_table(path: Path, rows: int | None = None) -> DataFrame:
    """The rows of a CSV file as text, with the file's columns; or only the first `rows` of them.

    Errors: Refused for a file that is not there or above 64 MiB, that is no UTF-8, not gzip although its name says so,
    or no table with named columns and rows.
    """
    where = str(path)
    frame = parse_csv(read_bytes(path), where, rows, dtype=str, keep_default_na=False)
    if not len(frame):
        raise Refused(where, "a header and rows", "no rows")
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


NOTHING = 1e-30
"""Seconds: in the place of a bound that is none."""


def not_in_seconds(seconds: Any, least: Any, where: str) -> None:
    """Errors: Refused for times that were read as milliseconds and half of which, and more, no device of these limits
    comes near to, but would as seconds. seconds: as read. least: of the device, 0 where nothing bounds it."""
    import numpy as np

    if not len(seconds):
        return
    near = np.median(seconds / np.maximum(least, NOTHING))
    if near < NEAR and 1e3 * near >= 1:
        found = f"what must be seconds: as milliseconds, half are over {1 / NEAR:g} times faster than the device can be"
        raise Refused(f"{where}: times", "milliseconds", found)


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
