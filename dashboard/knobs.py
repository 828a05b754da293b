"""Knobs that several pages have. Each stands in the address, so that a link shows the same."""

from __future__ import annotations

import streamlit as st

from calc.query import CHECKPOINTING, Checkpointing, common_length
from calc.spec import ModelSpec

LENGTHS = tuple(2**power for power in range(7, 21))
"""Tokens of a sequence that a slider stops at, beside the model's own longest."""
BATCHES = tuple(2**power for power in range(11))


def seq(spec: ModelSpec, label: str = "Sequence length") -> int:
    """Tokens of each sequence."""
    usual = common_length([spec])
    lengths = sorted({*LENGTHS, usual, spec.max_seq_len or usual})
    forget_stale("seq", lengths)
    chosen = st.select_slider(label, lengths, usual, key="seq", bind="query-params")
    return int(chosen)


def batch(label: str = "Sequences") -> int:
    """Sequences at once."""
    return int(st.select_slider(label, BATCHES, 1, key="batch", bind="query-params"))


def checkpointing() -> Checkpointing:
    """What is computed again in backward."""
    return st.selectbox(
        "Checkpointing", CHECKPOINTING, key="checkpointing", bind="query-params", help="Recomputed in backward"
    )


def forget_stale(key: str, options: list) -> None:
    """Forget what a knob was set to where the options no longer hold it: another model has been picked."""
    if key in st.session_state and st.session_state[key] not in options:
        del st.session_state[key]
