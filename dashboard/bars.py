"""Bars and axes that several pages draw: stacked by component, with units and prefixes that people read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from dashboard import colours

STEP = 34
"""Pixels that one bar and the gap to the next take."""
PREFIXED = "replace(format(datum.value, '.3~s'), 'G', '{giga}')"
BINARY = "datum.value == 0 ? '0' : format(datum.value / pow(2, 30), ',.3~r') + ' GiB'"
"""How an axis shows bytes."""


def axis(title: str, *, giga: str = "G", **more: Any) -> alt.Axis:
    """An axis of plain numbers with SI prefixes. giga: the letter for 10^9; parameters say B."""
    return alt.Axis(title=title, labelExpr=PREFIXED.format(giga=giga), **more)


def byte_axis(title: str, **more: Any) -> alt.Axis:
    """An axis of bytes, in GiB."""
    return alt.Axis(title=title, labelExpr=BINARY, **more)


def legend(columns: int = 4) -> alt.Legend:
    """Below the chart, so that a phone keeps the width for the bars."""
    return alt.Legend(title=None, orient="bottom", columns=columns, labelLimit=140)


def tooltip(*fields: str, **titled: str) -> list[alt.Tooltip]:
    """What stands beside the pointer: fields by their names, and others by a title. All are shown as text."""
    return [alt.Tooltip(f"{name}:N", title=title) for name, title in (dict(zip(fields, fields, strict=True)) | titled).items()]


def stacked(
    rows: Sequence[dict[str, Any]], label: str, part: str, value: str, at: alt.Axis, *, order: Sequence[str]
) -> alt.Chart:
    """Horizontal bars, one for each `label` in the order of the rows, stacked by `part` in the given order.

    rows: also hold `shown`, the value as the tooltip says it.
    """
    frame = pd.DataFrame(list(rows))
    bars = list(dict.fromkeys(frame[label]))
    names = [name for name in order if name in set(frame[part])]
    frame["place"] = [names.index(name) for name in frame[part]]
    return (
        alt.Chart(frame)
        .mark_bar()
        .encode(
            y=alt.Y(f"{label}:N", sort=bars, title=None, axis=alt.Axis(labelLimit=150)),
            x=alt.X(f"sum({value}):Q", axis=at),
            color=alt.Color(f"{part}:N", scale=colours.scale(alt, names), legend=legend()),
            order=alt.Order("place:Q"),
            tooltip=tooltip(label, part, shown=value),
        )
        .properties(height=STEP * len(bars) + 20)
    )


def columns(rows: Sequence[dict[str, Any]], x: str, part: str, value: str, at: alt.Axis, title: str) -> alt.Chart:
    """Upright bars along whole numbers, such as layers, stacked by `part`."""
    frame = pd.DataFrame(list(rows))
    names = list(dict.fromkeys(frame[part]))
    return (
        alt.Chart(frame)
        .mark_bar()
        .encode(
            x=alt.X(f"{x}:O", title=title, axis=alt.Axis(labelAngle=0, labelOverlap=True)),
            y=alt.Y(f"{value}:Q", axis=at),
            color=alt.Color(f"{part}:N", scale=colours.scale(alt, names), legend=legend()),
            tooltip=tooltip(x, "kind", part, shown=value),
        )
        .properties(height=240)
    )
