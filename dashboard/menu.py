"""The pages of the dashboard. Needs no streamlit, so that the server knows them before anything is drawn."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """A page: its module in this package holds `render(picked)`; `path` is the last part of its address. of_model:
    whether it shows the picked model at all."""

    path: str
    title: str
    module: str
    of_model: bool = True


PAGES = (
    Entry("home", "Home", "dashboard.home"),
    Entry("model", "Model", "dashboard.model"),
    Entry("formula", "Formula", "dashboard.formula"),
    Entry("memory", "Memory", "dashboard.memory"),
    Entry("plan", "Plan", "dashboard.plan"),
    Entry("serve", "Serve", "dashboard.serve"),
    Entry("roofline", "Roofline", "dashboard.roofline"),
    Entry("scaling", "Scaling laws", "dashboard.scaling"),
    Entry("attention", "Attention", "dashboard.attention"),
    Entry("measured", "Measured vs predicted", "dashboard.measured", False),
    Entry("lectures", "Lectures", "dashboard.lectures", False),
)
"""The pages in the order of the menu; the first one opens first."""
