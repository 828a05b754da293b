"""Where things stand on a page: a head of one line, figures two by two, the picture beside them where it is wide."""

from __future__ import annotations

from typing import Any

import streamlit as st

HEAD, CARDS = "page-head", "cards"
WIDE = f"{CARDS}-wide"
"""Keys of containers; Streamlit gives each the class `st-key-` and its key, for rules such as these."""
TAG = "#c4262e"
"""Behind the white words of a chosen value, in both themes: the dark theme's own red is too light for them."""
STYLE = f"""<style>
.st-key-{HEAD} {{ margin-top: -2.75rem; }}
.st-key-{HEAD} > :last-child {{ flex: 1 1 20rem; min-width: 0; }}
.st-key-{HEAD} h1 {{ font-size: 1.9rem; padding: 0; }}
[class*="st-key-{CARDS}"] {{
  display: grid; grid-template-columns: repeat(auto-fit, minmax(8.8rem, 1fr)); gap: 0.6rem;
}}
[class*="st-key-{WIDE}"] {{ grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); }}
[class*="st-key-{CARDS}"] > * {{ width: 100%; max-width: none; }}
[class*="st-key-{CARDS}"] [data-testid=stMetric] :is(label, [data-testid^=stMetric]),
[class*="st-key-{CARDS}"] [data-testid=stMetric] :is(label, [data-testid^=stMetric]) :is(div, p) {{
  white-space: normal; overflow: visible;
}}
[data-testid=stMultiSelect] :is([data-tag], [data-baseweb=tag]) {{ background-color: {TAG}; }}
@media (max-width: 640px) {{ .st-key-{HEAD} {{ row-gap: 0; }} }}
</style>"""
"""Rules for our own containers: Streamlit leaves six lines free above a page, and cards as wide as they please. What a
test of the first screen holds; without them a page is longer, and chosen values are hard to read in a dark theme."""


def head(title: str, below: str) -> None:
    """The title of a page, and beside it on a wide screen what is shown; both are Markdown of ours."""
    st.html(STYLE)
    with st.container(key=HEAD, horizontal=True, vertical_alignment="center", gap="medium"):
        st.title(title, anchor=False, width="content")
        st.caption(below)


def cards(part: str = "", *, wide: bool = False) -> Any:
    """A block whose figures stand beside each other, two by two on a phone. part: of a page that has several. wide:
    with room for a sentence below each."""
    return st.container(key=f"{WIDE if wide else CARDS}-{part}", horizontal=True)


def fold(label: str, *keys: str) -> Any:
    """The fold of knobs that are needed less often, by their keys; open where a link or a visitor has set any."""
    return st.expander(label, expanded=any(key in st.query_params for key in keys))


def side_by_side() -> tuple[Any, Any]:
    """(where the picture goes, where the figures go): beside each other, or on a phone the picture first."""
    picture, figures = st.columns([5, 3])
    return picture, figures
