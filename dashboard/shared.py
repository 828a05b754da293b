"""One state for what pages share: a knob that several of them have starts as it was last seen on another.

Streamlit forgets the widgets of a page once another one is opened, and empties the address. What was chosen is kept
here by the key of the knob; a usual value is no choice, since it follows the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

CHOSEN = "chosen on any page"
"""The key of what was chosen: key of a knob -> value."""
HELD = "last value of what every page has"
"""The key of what was last drawn: key of a knob -> value."""
PAGE = "open page"
ENTERED = "page was just opened"


def enter(page: str) -> None:
    """Note which page is drawn, and whether another one was before."""
    st.session_state[ENTERED] = st.session_state.get(PAGE) != page
    st.session_state[PAGE] = page


def chosen(key: str) -> Any:
    """What a knob was set to on any page; None where it never was."""
    return st.session_state.get(CHOSEN, {}).get(key)


def share(key: str, options: Sequence[Any], usual: Any) -> None:
    """Ahead of the knob `key` of `options`: have it show what was chosen on another page, where this one can.

    What stands in the address goes before that; it is read by the knob itself.
    """
    known: dict[str, Any] = st.session_state.setdefault(CHOSEN, {})
    linked = st.query_params.get(key)
    if key in st.session_state and not st.session_state[ENTERED]:
        value = st.session_state[key]
    elif linked is not None:
        value = next((each for each in options if str(each) == linked), usual)
    else:
        value = known.get(key)
        if value is not None and value in options:
            st.session_state[key] = value
            # Only what a visitor sets is written there by itself; a link must show the same as this page.
            st.query_params[key] = str(value)
        return
    known.pop(key, None)
    if value != usual:
        known[key] = value


def recall(key: str, usual: Any) -> None:
    """Ahead of the knob `key`, which every page has: have it show again what it showed, where the browser has lost it.

    Whoever follows a link of the menu while the first page is still being drawn comes without what the browser would
    have sent once that was done, and would see the usual model under an address that names none.
    """
    value = st.session_state.get(HELD, {}).get(key, usual)
    if value != usual and key not in st.query_params and st.session_state.get(key, value) == value:
        st.session_state[key] = value
        st.query_params[key] = str(value)


def hold(key: str, value: Any) -> None:
    """Behind the knob `key`, which every page has: remember what it shows."""
    st.session_state.setdefault(HELD, {})[key] = value
