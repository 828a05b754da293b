"""What is odd in a file of runs, one sentence each: it is said, and the runs are fitted all the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calc.fitting.cells import as_numbers
from calc.fitting.columns import named
from calc.fitting.forms import Array

if TYPE_CHECKING:
    # As in calc.fitting.runs: to a type checker pandas' own types are unknown.
    DataFrame = Any

_BAD = re.compile(r"exclud|outlier|diverge", re.IGNORECASE)
_POOLED = "dataset data corpus source eval evaluation split recipe optimizer schedule tokenizer router architecture"
"""Columns that say of which data or recipe a run is: runs of several are several laws."""
_MOST = 14.0
"""Nats a token: more than e^14 = 1.2 million equally likely tokens would lose."""
_LEAST = 0.1
"""Tokens a parameter of most runs, below which the two columns look swapped."""


def marked(frame: DataFrame, chosen: Mapping[str, str]) -> Iterator[str]:
    """Rows that their own remarks call bad, and were not filtered out."""
    for column in frame.columns:
        if column in chosen.values() or frame[column].dtype.kind in "iufb":
            continue
        marked = frame[column].astype(str).str.contains(_BAD)
        if marked.any():
            example = _BAD.search(str(frame.loc[marked, column].iloc[0]))
            hint = f'--where "{column}!~{example[0]}"' if example else ""
            yield f"{marked.sum():,} rows are marked in {column} and are fitted all the same: {hint} leaves them out"


def odd_values(params: Array, tokens: Array, loss: Array) -> Iterator[str]:
    """Sizes and losses that look like other units, columns that look swapped, and runs that were repeated."""
    if params.max() < 1e4 or tokens.max() < 1e4:
        yield f"sizes of at most {params.max():g} parameters and {tokens.max():g} tokens: are they in millions?"
    high = int((loss > _MOST).sum())
    if high:
        perplexity = " (perplexities? take their logarithms)" if 2 * high >= loss.size else ""
        yield f"{high:,} of {loss.size:,} losses are above {_MOST:g} nats a token, where guessing ends{perplexity}"
    ratio = float(np.median(tokens / params))
    if ratio < _LEAST:
        yield f"half of the runs saw under {ratio:.2g} tokens a parameter: are the two columns swapped?"
    size, spread = _repeated(params, tokens, loss)
    if size.size and spread.max() > 0.1:
        yield (
            f"runs of the same parameters and tokens differ by up to {spread.max():.0%} in loss: several "
            "evaluations or settings in one file are chosen among with --where, or the best of each taken with --best"
        )
    elif size.size:
        some = f"{size.sum():,} runs repeat {size.size:,} pairs of parameters and tokens"
        yield f"{some}: losses differ by {np.median(spread):.2%}, at most {spread.max():.2%}, which no fit explains"


def _repeated(params: Array, tokens: Array, loss: Array) -> tuple[Array, Array]:
    """Of each pair of sizes that has several runs: how many, and their highest loss over their lowest, less 1."""
    order = np.lexsort((tokens, params))
    changes = (np.diff(params[order]) != 0) | (np.diff(tokens[order]) != 0)
    firsts = np.concatenate([[0], np.flatnonzero(changes) + 1])
    size = np.diff(np.append(firsts, loss.size))
    spread = np.maximum.reduceat(loss[order], firsts) / np.minimum.reduceat(loss[order], firsts) - 1
    return size[size > 1], spread[size > 1]


def lowest(params: Array, tokens: Array, loss: Array) -> np.ndarray[Any, Any]:
    """Places, in their order, of the row with the lowest loss of each pair of parameters and tokens."""
    order = np.lexsort((loss, tokens, params))
    first = (np.diff(params[order]) != 0) | (np.diff(tokens[order]) != 0)
    return np.sort(order[np.concatenate([[True], first])])


def swept(frame: DataFrame, arrays: Sequence[Array], chosen: np.ndarray[Any, Any]) -> Iterator[str]:
    """What was chosen among, and where the best learning rate is the least or the most that was tried."""
    params, tokens, loss = arrays
    yield f"{chosen.size:,} of {loss.size:,} rows are the best of their parameters and tokens; the others are left out"
    column = named(frame, "lr learning_rate peak_lr max_lr")
    if column is None:
        return
    rates = as_numbers(frame[column])
    ends = tried = 0
    for best in chosen:
        own = rates[(params == params[best]) & (tokens == tokens[best])]
        own = own[np.isfinite(own)]
        if np.unique(own).size > 2:
            tried += 1
            ends += bool(rates[best] in (own.min(), own.max()))
    if ends:
        yield f"in {ends} of {tried} sweeps the best learning rate is the lowest or highest tried: the best lies beyond"


def pooled(frame: DataFrame, chosen: Mapping[str, str]) -> dict[str, np.ndarray[Any, Any]]:
    """Columns of data or recipes that hold several values -> the value of each row."""
    found = {}
    for name in _POOLED.split():
        column = named(frame, name)
        if column is not None and column not in chosen.values():
            labels = frame[column].astype(str).to_numpy()
            if 1 < np.unique(labels).size < labels.size / 2:
                found[column] = labels
    return found
