"""What a saved chart says of itself: its title, and below it the model, the device and what was asked."""

from __future__ import annotations

import textwrap

import streamlit as st

from calc.charts.vega import Chart
from calc.errors import printable

MODEL = "name of the picked model"
"""The key of what stands beside the title of a page."""
OPEN = "title of the open page"
"""The key of what a saved chart is called after."""
ABOUT = "what the charts are about"
"""The key of (device, command) of the charts that are drawn next."""
ANY = "any device"
"""The device of what is the same on all of them."""
COLUMNS, MOST = 110, 4
"""Letters of a line below a title, and the most lines."""


def about(device: str, command: str) -> None:
    """Ahead of charts: the device that they are of, and the command that prints their numbers, with all settings."""
    st.session_state[ABOUT] = (device, command)


def forget() -> None:
    """Ahead of a page: what the charts of another one were about."""
    st.session_state[ABOUT] = (ANY, "")


def titled(drawn: Chart, alt: str) -> Chart:
    """The chart as it is saved. alt: its title where it has none of its own."""
    device, command = st.session_state.get(ABOUT, (ANY, ""))
    page, model = (st.session_state.get(key) for key in (OPEN, MODEL))
    first = " · ".join(filter(None, ("Envelope", page, model, device)))
    lines = [*textwrap.wrap(printable(first), COLUMNS), *textwrap.wrap(printable(command), COLUMNS)]
    title = {"text": drawn.get("title") or alt.rstrip("."), "subtitle": lines[:MOST], "anchor": "start"}
    return {**drawn, "title": title}
