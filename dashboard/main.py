"""The frame of the dashboard: the menu, the model that all pages share, and the page that is shown."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import streamlit as st

from calc.errors import printable
from dashboard import frame, links, picker, saved, shared
from dashboard.menu import PAGES, Entry

WORDMARK = Path(__file__).with_name("wordmark.svg")


def run(start: str = PAGES[0].path) -> None:
    """Draw the menu, the model picker and the page that is open. start: the path of the page that opens first."""
    st.set_page_config(page_title="Envelope", layout="wide", initial_sidebar_state="auto")
    st.logo(str(WORDMARK), size="large")
    links.opened()
    choice: list[picker.Picked | None] = []
    pages = {
        entry.path: st.Page(_shown(entry, choice), title=entry.title, url_path=entry.path, default=entry.path == start)
        for entry in PAGES
    }
    st.session_state[frame.LINKED] = pages
    chosen = st.navigation([*pages.values()])
    entry = next(each for each in PAGES if pages[each.path] == chosen)
    choice.append(picker.pick(folded=not entry.of_model))
    chosen.run()


def _shown(entry: Entry, choice: list[picker.Picked | None]) -> Callable[[], None]:
    def show() -> None:
        (picked,) = choice
        shared.enter(entry.path)
        model = "" if picked is None or not entry.of_model else printable(picked.spec.name)[:60]
        st.session_state[saved.MODEL], st.session_state[saved.OPEN] = model, entry.title
        st.set_page_config(page_title=" · ".join(filter(None, (entry.title, model, "Envelope"))))
        if links.shown(entry.path):
            above = st.container()
            if entry.of_model:
                picker.refused()
            import_module(entry.module).render(picked)
            links.checked(entry.path, above)

    return show
