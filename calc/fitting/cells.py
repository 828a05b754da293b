"""Cells of a table of runs as numbers: plain ones, and text such as 7B."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from calc.errors import Refused
from calc.fitting.forms import Array
from calc.units import parse_amount

if TYPE_CHECKING:
    # As in calc.fitting.runs: to a type checker pandas' own types are unknown.
    Series = Any

UNITS = {
    "params": "parameters",
    "tokens": "tokens",
    "unique_tokens": "tokens",
    "inference_tokens": "tokens",
    "flops": "FLOP",
    "compute": "FLOP",
    "compute_min": "FLOP",
    "compute_naive": "FLOP",
}
"""What a column is -> the unit in which 7B and the like are read in it."""


def as_numbers(values: Series, unit: str = "") -> Array:
    """float64: products of whole numbers wrap around in silence past 2^63. What is no number becomes NaN.

    unit: of `calc.units.parse_amount`, in which text such as 7B is read too.
    """
    import pandas

    numbers = np.array(pandas.to_numeric(values, errors="coerce"), dtype=np.float64)
    left = np.isnan(numbers) & values.notna().to_numpy()
    if unit and left.any():
        numbers[left] = (
            values[left].astype(str).map({text: _amount(text, unit) for text in set(map(str, values[left]))})
        )
    return numbers


def _amount(text: str, unit: str) -> float:
    try:
        return float(parse_amount(text, unit))
    except Refused:
        return math.nan
