"""What every page is made of: tables and charts that download, commands, metrics, refusals, and text shown as it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal

import streamlit as st

from calc.charts.saving import picture
from calc.charts.vega import Chart
from calc.errors import Refused, printable
from dashboard import layout
from dashboard.saved import MODEL, OPEN, forget, titled

INKS = {"light": "#4a4d57", "dark": "#c8ccd4"}
"""Colour of words in a chart, by the theme of the page."""
DIGIT, PADDING = 9, 30
"""Pixels of a digit in a table, and around it."""
FOLD = "fold of commands"
SHOWN = "commands are shown"
"""The key of whether the visitor wants to see commands."""
LINKED = "pages by path"
"""The key of the pages that a link may lead to."""


def header(title: str, lead: str) -> None:
    """The product, the model and the title of a page, and in one sentence what it shows; title and lead are ours."""
    forget()
    named = st.session_state.get(MODEL)
    layout.head(title, " · ".join(["**Envelope**", *([verbatim(named)] if named else []), lead]))


def verbatim(text: str) -> str:
    """Markdown that shows `text` as it is: no link, picture, formula or colour in it has any effect."""
    line = printable(text) or "–"
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    pad = " " if len(fence) > 1 or line.startswith(" ") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def metric(label: str, value: str, exact: str = "", note: str = "") -> None:
    """A figure with its prefix and unit; `exact`, every digit of it, stands in the help; `note` below it."""
    st.metric(
        label,
        value,
        help=exact or None,
        delta=note or None,
        delta_color="off",
        delta_arrow="off",
        border=True,
        height="stretch",
    )


def table(
    rows: Any,
    name: str,
    *,
    columns: dict[str, Any] | None = None,
    shown: Mapping[str, Callable[..., str]] | None = None,
    height: int | Literal["auto"] = "auto",
    tinted: Mapping[str, Mapping[str, str]] | None = None,
    folded: str = "",
) -> None:
    """A table (a DataFrame, or a list of records) and its download as `name`.csv, with every digit.

    columns: of streamlit's column_config. shown: column -> how its values are written; what is missing is a dash.
    tinted: column -> the colour under each of its values. folded: the name of the fold that it stands behind; none
    where it stands open.
    """
    import pandas as pd

    if folded:
        with st.expander(folded):
            table(rows, name, columns=columns, shown=shown, tinted=tinted, height=height)
        return
    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows)
    written = frame if not shown else _written(frame, {name: shown[name] for name in shown if name in frame})
    for column, colours in (tinted or {}).items():
        written = getattr(written, "style", written).map(partial(_tint, colours), subset=[column])
    columns = _widths(frame, columns or {})
    st.dataframe(written, hide_index=True, column_config=columns, height=height, key=f"table-{name}", placeholder="–")
    st.download_button(
        "CSV",
        lambda: frame.to_csv(index=False).encode(),
        f"{name}.csv",
        "text/csv",
        key=f"csv-{name}",
        help="This table with every digit",
        on_click="ignore",
        type="tertiary",
    )


def _tint(colours: Mapping[str, str], value: str) -> str:
    return f"background-color: {colours[value]}" if value in colours else ""


def _widths(frame: Any, columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns, those of whole numbers as wide as their longest: a digit that is cut off makes another number."""
    found = dict(columns)
    for name, column in columns.items():
        if name not in frame or not len(frame) or frame[name].dtype.kind not in "iuf":
            continue
        if isinstance(column, dict) and column.get("width") is None:
            digits = len(f"{frame[name].abs().max():,.0f}")
            found[name] = {**column, "width": max(DIGIT * max(digits, len(name)) + PADDING, 70)}
    return found


def _written(frame: Any, shown: Mapping[str, Callable[..., str]]) -> Any:
    """The table as it is shown. Numbers past 2^53, which a browser cannot hold, are text in it."""
    import pandas as pd

    large = [name for name in shown if frame[name].dtype.kind in "iuf" and frame[name].abs().max() >= 2**53]
    texts = {name: [None if pd.isna(value) else shown[name](value) for value in frame[name]] for name in large}
    left: Any = {name: write for name, write in shown.items() if name not in large}
    return frame.assign(**texts).style.format(left, subset=[*left], na_rep="–")


def grouped(*names: str) -> dict[str, Any]:
    """Columns of a table whose numbers are written with every digit, in groups of three."""
    return {name: st.column_config.NumberColumn(format="localized") for name in names}


def chart(drawn: Chart, name: str, *, alt: str, picks: str = "") -> str | None:
    """A chart as wide as the page, and its downloads as `name`.png and `name`.svg, which are made on a click.

    drawn: of `calc.charts`. alt: what it shows, for those who cannot see it; its title where it is saved. picks: the
    field whose value a click gives, where the chart has a selection of it. The value of what was clicked, or None.
    """
    picked = None
    if picks:
        (selection,) = (own["name"] for layer in drawn["layer"] for own in layer.get("params", ()))
        state: Any = st.vega_lite_chart(
            spec=readable(drawn), width="stretch", alt=alt, key=f"picked-{name}", on_select="rerun",
            selection_mode=selection,
        )  # fmt: skip
        picked = next((row.get(picks) for row in state["selection"][selection]), None)
    else:
        st.vega_lite_chart(spec=readable(drawn), width="stretch", alt=alt)
    saved = titled(drawn, alt)
    with st.container(horizontal=True):
        for suffix, mime in (("png", "image/png"), ("svg", "image/svg+xml")):
            st.download_button(
                suffix.upper(),
                lambda suffix=suffix: picture(saved, suffix),
                f"{name}.{suffix}",
                mime,
                key=f"{suffix}-{name}",
                on_click="ignore",
                type="tertiary",
            )
    return picked


def readable(drawn: Chart) -> Chart:
    """The chart with words as dark, or in a dark theme as light, as those around it: Streamlit's own are at 3.7:1."""
    ink = INKS["dark" if st.context.theme.type == "dark" else "light"]
    words = {"labelColor": ink, "titleColor": ink}
    own = {"axis": words, "legend": words, "text": {"color": ink}, "title": {"color": ink}}
    return {**drawn, "config": {**own, **drawn.get("config", {})}}


def link(path: str, label: str) -> None:
    """A way to another page, which keeps what is chosen here."""
    st.page_link(st.session_state[LINKED][path], label=f"→ {label}")


def go(path: str, **query: str) -> None:
    """Open another page, with more in its address than what is chosen here."""
    st.switch_page(st.session_state[LINKED][path], query_params=query)


def command(*lines: str, part: str = "") -> None:
    """The commands that give the same numbers on the command line, each as `python -m calc ...`.

    They are sent once the fold is opened, and on every page from then on: what colours code is a quarter of all that a
    first visit would wait for. part: of a page that has several folds, what this one belongs to.
    """
    place = f"{FOLD}, {st.session_state[OPEN]}, {part}"
    usual = bool(st.session_state.get(SHOWN))
    fold = st.expander("The same numbers on the command line", usual, key=place, on_change=_unfolded, args=(place,))
    if fold.open:
        with fold:
            st.code("\n".join(lines), language=None, wrap_lines=True)


def _unfolded(place: str) -> None:
    st.session_state[SHOWN] = st.session_state[place]


@contextmanager
def refusals(what: str = "Refused") -> Iterator[None]:
    """Turn a refusal within into one plain message; what follows in the block is not run."""
    try:
        yield
    except Refused as refusal:
        st.error(f"{what}: {verbatim(str(refusal))}")
    except (ArithmeticError, RecursionError, MemoryError, OSError) as error:
        st.error(f"{what}: {verbatim(str(error) or type(error).__name__)}")


def nothing_yet(text: str) -> None:
    """An empty state: says what to do."""
    st.info(text)
