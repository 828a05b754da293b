"""Knobs that several pages have. Each stands in the address, so that a link shows the same."""

from __future__ import annotations

import re
from collections.abc import Iterable

import streamlit as st

from calc.spec import ModelSpec
from calc.spec.run import CHECKPOINTING, Checkpointing, common_length
from dashboard.shared import chosen, share

LENGTHS = tuple(2**power for power in range(7, 21))
"""Tokens of a sequence that a slider stops at, beside the model's own longest."""
BATCHES = tuple(2**power for power in range(11))
MOST_BATCHES = 2**12
PRICE = 2.0
"""Dollars of a GPU-hour that are supposed at first."""


def seq(spec: ModelSpec, label: str = "Sequence length") -> int:
    """Tokens of each sequence."""
    usual = common_length([spec])
    lengths = holding("seq", [*LENGTHS, usual, spec.max_seq_len or usual], LENGTHS[-1])
    forget_stale("seq", lengths, usual)
    share("seq", lengths, usual)
    chosen = int(st.select_slider(label, lengths, usual, key="seq", bind="query-params"))
    if spec.max_seq_len is not None and chosen > spec.max_seq_len:
        st.caption(f"⚠ Past the {spec.max_seq_len:,} tokens that the model is made for.")
    return chosen


def batch(label: str = "Sequences") -> int:
    """Sequences at once."""
    batches = holding("batch", BATCHES, MOST_BATCHES)
    share("batch", batches, 1)
    return int(st.select_slider(label, batches, 1, key="batch", bind="query-params"))


def price() -> float:
    """Dollars of a GPU-hour."""
    linked = st.query_params.get("price", "")
    found = {PRICE} | ({float(linked)} if re.fullmatch(r"\d{1,4}(\.\d{1,4})?", linked) else set())
    found |= {each for each in (chosen("price"), st.session_state.get("price")) if isinstance(each, float)}
    share("price", sorted(found), PRICE)
    return float(
        st.number_input(
            "Price of a GPU-hour, $", 0.01, 1000.0, PRICE, 0.5, key="price", bind="query-params", help="What you pay"
        )
    )


def holding(key: str, stops: Iterable[int], most: int) -> list[int]:
    """The stops of the slider `key` in order, and with them whatever whole number up to `most` a link has brought."""
    linked = st.query_params.get(key, "")
    brought: set[int] = st.session_state.setdefault(f"{key} of a link", set())
    if re.fullmatch(r"[1-9]\d{0,8}", linked):
        brought.add(int(linked))
    # A button or another page may have set it to what is no stop here.
    brought |= {each for each in (st.session_state.get(key), chosen(key)) if isinstance(each, int) and each > 0}
    return sorted({*stops, *(each for each in brought if each <= most)})


def images(spec: ModelSpec) -> int:
    """Pictures that are read beside the text, together; 0 and no knob where the model reads none."""
    if spec.vision is None and spec.eyes is None:
        without_pictures(spec)
        return 0
    share("images", (0, *BATCHES), 1)
    return int(st.select_slider("Pictures", (0, *BATCHES), 1, key="images", bind="query-params"))


def without_pictures(spec: ModelSpec) -> None:
    """Say so on a page that counts none."""
    if spec.takes_pictures:
        st.caption("⚠ Of text alone: no pictures are counted here.")


def checkpointing() -> Checkpointing:
    """What is computed again in backward."""
    share("checkpointing", CHECKPOINTING, CHECKPOINTING[0])
    return st.selectbox(
        "Checkpointing", CHECKPOINTING, key="checkpointing", bind="query-params", help="Recomputed in backward"
    )


def forget_stale(key: str, options: list, usual: object = None) -> None:
    """Forget what a knob was set to where another model has been picked: what the options no longer hold, and what was
    the usual value of the last model (usual: of this one). A usual value is not in the address, so that a link would
    show another one than the page.
    """
    last, st.session_state[f"usual {key}"] = st.session_state.get(f"usual {key}"), usual
    now = st.session_state.get(key)
    if now is None or (now in options and (now != last or last == usual)):
        return
    if usual is None:
        del st.session_state[key]
    else:
        st.session_state[key] = usual  # and not forgotten, which the browser would not be told
