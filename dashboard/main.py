"""The frame of the dashboard: the pages in order, the model that all of them share, and which one is shown."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

import streamlit as st

from dashboard import picker


class Entry(NamedTuple):
    """A page: its module in this package holds `render(picked)`; `path` is the last part of its address."""

    path: str
    title: str
    module: str


PAGES = (
    Entry("model", "Model", "dashboard.model"),
    Entry("formula", "Formula", "dashboard.formula"),
    Entry("memory", "Memory", "dashboard.memory"),
    Entry("roofline", "Roofline", "dashboard.roofline"),
    Entry("scaling", "Scaling laws", "dashboard.scaling"),
    Entry("attention", "Attention", "dashboard.attention"),
    Entry("measured", "Measured vs predicted", "dashboard.measured"),
    Entry("lectures", "Lectures", "dashboard.lectures"),
)
"""The pages in the order of the menu. A page's module is imported when it is first opened."""


def run(start: str = "model") -> None:
    """Draw the menu, the model picker and the page that is open. start: the path of the page that opens first."""
    st.set_page_config(page_title="Envelope", layout="wide", initial_sidebar_state="auto")
    picked = picker.pick()
    pages = [
        st.Page(_shown(entry, picked), title=entry.title, url_path=entry.path, default=entry.path == start)
        for entry in PAGES
    ]
    st.navigation(pages).run()


def _shown(entry: Entry, picked: picker.Picked | None) -> Callable[[], None]:
    def show() -> None:
        import_module(entry.module).render(picked)

    return show
