"""Training runs as a fit reads them: from a CSV whose columns are found by their names, or from arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calc.errors import Refused, shortened
from calc.fitting import doubts
from calc.fitting.cells import UNITS, as_numbers
from calc.fitting.columns import brief, chosen_columns, column_named
from calc.fitting.forms import Array
from calc.reading.tables import parse_csv, read_bytes

if TYPE_CHECKING:
    # As in calc.reading.tables: to a type checker pandas' own types are unknown.
    DataFrame = Series = Any


_WHERE = re.compile(r"\s*([^=~!]+?)\s*(!?[=~])\s*(.*?)\s*")


class Upload(NamedTuple):
    """A CSV that lies in no file: its bytes, and what messages call it."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs, each array of shape (runs,), all positive: N, D in tokens, loss as given, training FLOP where known.

    curve: which run a row belongs to, where rows are points of training curves. columns: what was read -> from which
    column. notes: what a reader should know of the reading, one sentence each. row: of each, its number in the table
    that was read, from 1. pools: column -> which data or recipe each row is of, where there are several.
    """

    params: Array
    tokens: Array
    loss: Array
    flops: Array | None = None
    curve: np.ndarray[Any, Any] | None = None
    columns: Mapping[str, str] | None = None
    notes: tuple[str, ...] = ()
    row: np.ndarray[Any, Any] | None = None
    pools: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.params.size

    @property
    def six_nd(self) -> Array:
        """Training FLOP as 6 N D."""
        return 6.0 * self.params * self.tokens

    def where(self, chosen: np.ndarray[Any, Any]) -> Runs:
        """The rows that a mask or an index keeps."""
        flops, curve, row = (None if each is None else each[chosen] for each in (self.flops, self.curve, self.row))
        return replace(
            self,
            params=self.params[chosen],
            tokens=self.tokens[chosen],
            loss=self.loss[chosen],
            flops=flops,
            curve=curve,
            row=row,
            pools={column: labels[chosen] for column, labels in self.pools.items()},
        )

    def named(self, at: int) -> str:
        """What to call one of the rows: its number in the table, and its run where that has a name."""
        row = at + 1 if self.row is None else int(self.row[at])
        return f"row {row}" + ("" if self.curve is None else f" ({brief(str(self.curve[at]), 30)})")


def read(
    source: str | Path | Upload | Mapping[str, Any] | Runs,
    columns: Mapping[str, str] | None = None,
    where: Sequence[str] = (),
    skip_invalid: bool = False,
    with_flops: bool = False,
    best: bool = False,
) -> Runs:
    """The runs of a CSV, in a file or in bytes, or of a mapping of columns.

    columns: what (params, tokens, loss, flops, run) -> the column to read it from; "6ND" for FLOPs that are to be
    computed, whatever a column says. where: conditions COLUMN=VALUE, COLUMN!=VALUE, COLUMN~TEXT and COLUMN!~TEXT (holds
    the text, or does not), all of which a row must meet. skip_invalid: leave out rows whose N, D or loss is no positive
    number. with_flops: whether FLOPs are needed; only then is their column read. best: of rows with the same N and D,
    such as those of several learning rates, keep the one with the lowest loss. Rows that repeat another in everything
    that is read are left out.
    Errors: Refused for a file or a column that is not there, and, without skip_invalid, for a value that is no positive
    finite number.
    """
    if isinstance(source, Runs):
        return source
    frame, name = table(source, where)
    chosen = chosen_columns(frame, columns or {}, name)
    notes = [*doubts.marked(frame, chosen)]
    if with_flops:
        chosen.setdefault("flops", "6ND")
    else:
        chosen.pop("flops", None)
    flops = chosen.get("flops", "6ND")
    needed = [chosen[what] for what in ("params", "tokens", "loss")] + ([flops] if flops != "6ND" else [])
    units = {column: UNITS.get(what, "") for what, column in chosen.items()}
    numbers = {column: as_numbers(frame[column], units[column]) for column in needed}
    frame, numbers = valid(frame, numbers, name, skip_invalid, notes)
    frame, numbers = distinct(frame, numbers, chosen.get("run"), notes)
    arrays = [numbers[chosen[what]] for what in ("params", "tokens", "loss")]
    if best:
        lowest = doubts.lowest(*arrays)
        notes += doubts.swept(frame, arrays, lowest)
        frame, numbers = frame.iloc[lowest], {column: values[lowest] for column, values in numbers.items()}
        arrays = [values[lowest] for values in arrays]
    notes += doubts.odd_values(*arrays)
    pools = doubts.pooled(frame, chosen)
    return Runs(
        *arrays,
        flops=None if flops == "6ND" else numbers[flops],
        curve=frame[chosen["run"]].astype(str).to_numpy() if "run" in chosen else None,
        columns=chosen,
        notes=tuple(notes),
        row=frame.index.to_numpy() + 1,
        pools=pools,
    )


def table(source: str | Path | Upload | Mapping[str, Any], where: Sequence[str]) -> tuple[DataFrame, str]:
    """The rows that meet the conditions, and what messages call their source. Errors: Refused, also where none do."""
    if isinstance(source, Upload):
        frame, name = parse_csv(source.data, source.name, low_memory=False), source.name
    elif isinstance(source, str | Path):
        frame, name = parse_csv(read_bytes(Path(source)), str(source), low_memory=False), str(source)
    else:
        frame, name = _table(source), "runs"
    for condition in where:
        frame = _filtered(frame, condition, name)
    if not len(frame):
        raise Refused(name, "rows that meet the conditions" if where else "rows", "none")
    return frame, name


def _table(columns: Mapping[str, Any]) -> DataFrame:
    import pandas

    try:
        return pandas.DataFrame({name: np.asarray(values) for name, values in columns.items()})
    except ValueError as error:
        raise Refused("runs", "columns of one length", str(error)) from None


def _filtered(frame: DataFrame, condition: str, name: str) -> DataFrame:
    match = _WHERE.fullmatch(condition)
    if match is None:
        raise Refused("where", 'a condition such as "dataset=c4" or "notes!~outlier"', condition)
    column, relation, text = match.groups()
    values = frame[column_named(frame, column, name)]
    if relation[-1] == "~":
        met = values.astype(str).str.contains(text, regex=False) & values.notna()
    else:
        met = values.astype(str) == text
        if values.dtype.kind in "iuf" and _is_number(text):
            met |= values == float(text)
    return frame[~met if relation[0] == "!" else met]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def valid(
    frame: DataFrame,
    numbers: dict[str, Array],
    name: str,
    skip: bool,
    notes: list[str],
    zero: Sequence[str] = (),
) -> tuple[DataFrame, dict[str, Array]]:
    """The rows whose numbers are all positive; those of columns in `zero` may be 0."""
    bad = {
        column: ~(np.isfinite(values) & ((values > 0) | ((column in zero) & (values == 0))))
        for column, values in numbers.items()
    }
    wrong = np.logical_or.reduce(list(bad.values()))
    if not wrong.any():
        return frame, numbers
    if not skip:
        row = int(wrong.argmax())
        column = next(column for column, rows in bad.items() if rows[row])
        raise Refused(
            f"{name}, row {frame.index[row] + 1}, {column}",
            "a positive number (--skip-invalid leaves such rows out, --where chooses rows, --flops 6ND computes FLOPs)",
            shortened(str(frame[column].iloc[row]), 60),
        )
    if wrong.all():
        raise Refused(name, "rows with a positive number each of params, tokens and loss", "none")
    notes.append(f"{wrong.sum():,} of {len(frame):,} rows are left out: a value in them is no positive number")
    return frame[~wrong], {column: values[~wrong] for column, values in numbers.items()}


def distinct(
    frame: DataFrame, numbers: dict[str, Array], run: str | None, notes: list[str]
) -> tuple[DataFrame, dict[str, Array]]:
    repeated = frame.duplicated(subset=[*numbers, *([run] if run else [])]).to_numpy()
    if not repeated.any():
        return frame, numbers
    notes.append(f"{repeated.sum():,} rows repeat another and are left out")
    return frame[~repeated], {column: values[~repeated] for column, values in numbers.items()}
