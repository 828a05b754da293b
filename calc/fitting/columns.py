"""Which column of a table of runs is what: found by its name, or named by who asks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from calc.errors import Refused

if TYPE_CHECKING:
    # As in calc.fitting.runs: to a type checker pandas' own types are unknown.
    DataFrame = Any

KNOWN = {
    "params": "params_total total_params params n_params num_params nparams parameters n_parameters num_parameters "
    "model_size model_params N params_nonemb non_embedding_params params_non_embedding",
    "tokens": "tokens n_tokens num_tokens ntokens training_tokens train_tokens total_tokens tokens_seen token_count D",
    "loss": "loss val_loss validation_loss eval_loss test_loss final_loss train_loss training_loss cross_entropy L",
    "flops": "flops flop train_flops training_flops training_flop total_flops compute C",
    "run": "run run_id run_name name model_name model id",
}
"""What a column is -> the names it goes by, the likeliest first; case and punctuation make no difference."""

_LONGEST = 80


def chosen_columns(frame: DataFrame, wanted: Mapping[str, str], name: str) -> dict[str, str]:
    """What is read -> its column: the one that was asked for, else the first known name with a value in it."""
    chosen: dict[str, str] = {}
    for what, names in KNOWN.items():
        if what in wanted:
            chosen[what] = (
                "6ND" if (what, wanted[what]) == ("flops", "6ND") else column_named(frame, wanted[what], name)
            )
            continue
        column = named(frame, names)
        if column is not None:
            chosen[what] = column
        elif what in ("params", "tokens", "loss"):
            raise Refused(name, _missing(frame, what, names), listed(frame))
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


def column_named(frame: DataFrame, column: str, name: str) -> str:
    if column not in frame.columns:
        raise Refused(name, f"a column {column}", listed(frame))
    return column


def listed(frame: DataFrame) -> str:
    """The names of a table's columns, cut where they are too many or too long to be read."""
    return f"columns {brief(', '.join(map(str, frame.columns)), 4 * _LONGEST)}"


def brief(text: str, most: int = _LONGEST) -> str:
    """`text`, or as much of its beginning as a reader needs."""
    return text if len(text) <= most else f"{text[: most - 1]}… ({len(text):,} characters)"
