"""Results that are dear, kept by what they are made from, never by who asked: visitors share those of equal models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import streamlit as st

from calc.spec import ModelSpec
from calc.spec.run import Run

F = TypeVar("F", bound=Callable[..., Any])
ENTRIES = 200
"""Results kept of each function; the oldest goes first."""


def cached(function: F) -> F:
    """`function` of models and plain values, computed once for each of them and shared by all visitors.

    A model and a run are known by their whole description. Results are copied for each visitor, so that none can change
    another's. What a function raises is not kept.
    """
    keep = st.cache_data(max_entries=ENTRIES, show_spinner=False, hash_funcs={ModelSpec: _described, Run: _described})
    return cast(F, keep(function))


def _described(node: ModelSpec | Run) -> str:
    return node.model_dump_json()
