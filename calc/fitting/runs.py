"""Training runs as a fit reads them: from a CSV whose columns are found by their names, or from arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calc.errors import Refused, shortened
from calc.fitting import doubts
from calc.fitting.cells import UNITS, as_numbers
from calc.fitting.forms import Array
from calc.tables import parse_csv, read_bytes

if TYPE_CHECKING:
    # As in calc.tables: to a type checker pandas' own types are unknown.
    DataFrame = Series = Any

KNOWN = {
    "params": "params_total total_params params n_params num_params nparams parameters n_parameters num_parameters "
    "model_size model_params N params_nonemb non_embedding_params params_non_embedding",
    "tokens": "tokens n_tokens num_tokens ntokens training_tokens train_tokens total_tokens tokens_seen token_count D",
    "loss": "loss val_loss validation_loss eval_loss test_loss final_loss train_loss training_loss cross_entropy L",
    "flops": "flops flop train_flops training_flops training_flop total_flops compute C",
    "run": "run run_id run_name name model_name model id",
}
"""What a column is -> the names it goes by, the likeliest first; case and punctuation make no difference."""

_WHERE = re.compile(r"\s*([^=~!]+?)\s*(!?[=~])\s*(.*?)\s*")


class Upload(NamedTuple):
    """A CSV that lies in no file: its bytes, and what messages call it."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs, each array of shape (runs,), all positive: N, D in tokens, loss as given, training FLOP where known.

    curve: which run a row belongs to, where rows are points of training curves. columns: what was read -> from which
    column. notes: what a reader should know of the reading, one sentence each.
    """

    params: Array
    tokens: Array
    loss: Array
    flops: Array | None = None
    curve: np.ndarray[Any, Any] | None = None
    columns: Mapping[str, str] | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return self.params.size

    @property
    def six_nd(self) -> Array:
        """Training FLOP as 6 N D."""
        return 6.0 * self.params * self.tokens

    def where(self, kept: np.ndarray[Any, Any]) -> Runs:
        """The rows that a mask or an index keeps."""
        flops = None if self.flops is None else self.flops[kept]
        curve = None if self.curve is None else self.curve[kept]
        return Runs(self.params[kept], self.tokens[kept], self.loss[kept], flops, curve, self.columns, self.notes)


def read(
    source: str | Path | Upload | Mapping[str, Any] | Runs,
    columns: Mapping[str, str] | None = None,
    where: Sequence[str] = (),
    skip_invalid: bool = False,
    with_flops: bool = False,
) -> Runs:
    """The runs of a CSV, in a file or in bytes, or of a mapping of columns.

    columns: what (params, tokens, loss, flops, run) -> the column to read it from; "6ND" for FLOPs that are to be
    computed, whatever a column says. where: conditions COLUMN=VALUE, COLUMN!=VALUE, COLUMN~TEXT and COLUMN!~TEXT (holds
    the text, or does not), all of which a row must meet. skip_invalid: leave out rows whose N, D or loss is no positive
    number. with_flops: whether FLOPs are needed; only then is their column read. Rows that repeat another in everything
    that is read are left out.
    Errors: Refused for a file or a column that is not there, and, without skip_invalid, for a value that is no positive
    finite number.
    """
    if isinstance(source, Runs):
        return source
    frame, name = table(source, where)
    chosen = _columns(frame, columns or {}, name)
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
    notes += doubts.odd(*arrays)
    return Runs(
        *arrays,
        flops=None if flops == "6ND" else numbers[flops],
        curve=frame[chosen["run"]].astype(str).to_numpy() if "run" in chosen else None,
        columns=chosen,
        notes=tuple(notes),
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
    values = frame[_named(frame, column, name)]
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


def _named(frame: DataFrame, column: str, name: str) -> str:
    if column not in frame.columns:
        raise Refused(name, f"a column {column}", f"columns {', '.join(map(str, frame.columns))}")
    return column


def _columns(frame: DataFrame, asked: Mapping[str, str], name: str) -> dict[str, str]:
    """What is read -> its column: the one that was asked for, else the first known name with a value in it."""
    chosen: dict[str, str] = {}
    for what, names in KNOWN.items():
        if what in asked:
            chosen[what] = "6ND" if (what, asked[what]) == ("flops", "6ND") else _named(frame, asked[what], name)
            continue
        column = named(frame, names)
        if column is not None:
            chosen[what] = column
        elif what in ("params", "tokens", "loss"):
            raise Refused(name, _missing(frame, what, names), f"columns {', '.join(map(str, frame.columns))}")
    return chosen


def _missing(frame: DataFrame, what: str, names: str) -> str:
    """What would have been expected, with the likeliest reason that it is not there."""
    if len(frame.columns) == 1 and any(mark in str(frame.columns[0]) for mark in ";\t|"):
        return "columns with commas between them"
    known = f"a column of {what} (named {', '.join(names.split()[:5])}, …)"
    if what == "tokens" and named(frame, KNOWN["flops"]) is not None:
        return f"{known}; where FLOPs are 6 N D, add one of FLOPs / (6 * parameters)"
    return known


def named(frame: DataFrame, names: str) -> str | None:
    """The column that goes by one of the names, the first in their order with a value in it."""
    plain = {_bare(str(column)): str(column) for column in reversed(frame.columns)}
    there = [plain[bare] for bare in map(_bare, names.split()) if bare in plain]
    return next((column for column in there if frame[column].notna().any()), None)


def _bare(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def valid(
    frame: DataFrame, numbers: dict[str, Array], name: str, skip: bool, notes: list[str]
) -> tuple[DataFrame, dict[str, Array]]:
    bad = {column: ~(np.isfinite(values) & (values > 0)) for column, values in numbers.items()}
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
