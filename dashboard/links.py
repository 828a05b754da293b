"""Whether a link says what the page shows. Streamlit drops a value that a knob does not take, and shows another."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from calc.errors import Refused, did_you_mean
from calc.spec.catalogue import device_names
from dashboard import frame

OPENED = "address that the visitor came with"
"""The key of what stood behind the question mark as the session began: name -> values."""
REFUSED = "refused link"
"""The key of why the link that the session began with is not shown, and of the page that it was a link to."""
BY_HAND = ("spec", "file")
"""What the picker keeps in the address by itself, without a knob of that name."""
MOST_NAMED = 5
"""Names in a link that are said not to be read."""
NAMES = {"gpu": device_names}
"""Knobs whose names a refusal can suggest one of."""


def opened() -> None:
    """Ahead of every knob: note the address that a new visitor comes with; later ones are what the visitor chose."""
    new = OPENED not in st.session_state
    st.session_state[OPENED] = {name: st.query_params.get_all(name) for name in st.query_params} if new else {}


def checked(page: str, above: DeltaGenerator) -> None:
    """Behind every knob of the first drawing: have the page refused where a knob holds something else than its link.
    What of the link it does not read is said `above`."""
    linked: Mapping[str, list[str]] = st.session_state[OPENED]
    for name, values in linked.items():
        if name in st.session_state and not _holds(st.session_state[name], values):
            found = values[-1] if values else ""
            known = NAMES[name]() if name in NAMES else ()
            expected = f"a choice of this page{did_you_mean(found, known)}"
            st.session_state[REFUSED] = (page, str(Refused(name, expected, found[:80] or "''")))
            st.rerun()
    unread = [name for name in linked if name not in st.session_state and name not in BY_HAND]
    if unread:
        names = ", ".join(frame.verbatim(name[:40]) for name in unread[:MOST_NAMED])
        more = f" and {len(unread) - MOST_NAMED} more" if len(unread) > MOST_NAMED else ""
        above.caption(f"⚠ Of its link this page does not read {names}{more}.")


def shown(page: str) -> bool:
    """Whether the page may be drawn; says why not, and how to go on, where its link is refused."""
    if REFUSED not in st.session_state:
        return True
    where, why = st.session_state[REFUSED]
    if where != page:
        return True
    st.error(f"This link cannot be shown: {frame.verbatim(why)}")
    st.button("Open the page with its usual values", on_click=st.session_state.pop, args=(REFUSED,))
    return False


def _holds(value: Any, linked: list[str]) -> bool:
    """Whether a knob at `value` is what the address says. Of names that are too many, as many as there may be count."""
    if isinstance(value, (list, tuple)):
        return set(map(str, value)) <= set(linked) if value else not any(linked)
    last = linked[-1] if linked else ""
    if isinstance(value, bool):
        return last.lower() == str(value).lower()
    if str(value) == last:
        return True
    with suppress(ValueError, TypeError):
        return float(last) == float(value)
    return value is None and not last
