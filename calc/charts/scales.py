"""Axes and colours of what scaling laws speak of: sizes, tokens, FLOPs and losses, over many powers of ten."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from calc.charts.vega import Chart, channel, chart

INK, MARK = "#868e96", "#d6453d"
"""Of lines without a colour of their own, and of what is asked for: both stand out from white and from near-black."""
FAINTER = {"condition": {"test": "datum.extrapolated", "value": 0.35}, "value": 1.0}
"""What is extrapolated shows through."""
HEIGHT = 430
DECADES = 3
"""Powers of ten from which on an axis writes those alone: 1, 2 and 5 of each would be more than ten numbers."""
_SCALE = ("#5b6ee1", "#2fa39a", "#e0a100")
"""From low to high, legible on white and on near-black."""
_COUNT = "replace(format(datum.value, '~s'), 'G', 'B')"
_ROUND = "indexof([1, 2, 5], round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-9)))) >= 0"
"""Expressions of Vega."""


def together(layers: Iterable[Chart], title: str) -> Chart:
    """Layers in one frame, each with its own colours."""
    return chart(*layers, height=HEIGHT, title=title) | {"resolve": {"scale": {"color": "independent"}}}


def labels(name: str) -> dict[str, str]:
    """How an axis or a legend writes the numbers of a column: losses in full, FLOPs as 1e21, all else as 7B and 15T.

    Where a logarithmic axis has room, it writes 1, 2 and 5 of each power of ten.
    """
    if name == "loss":
        return {"format": ".2~f"}
    written = "format(datum.value, '.0e')" if name in ("compute", "budget") else _COUNT
    return {"labelExpr": f"{_ROUND} ? {written} : ''"}


def axis(name: str, title: str) -> dict[str, Any]:
    """A logarithmic axis for the column `name`."""
    scale = {"type": "log", "nice": False}
    ticks = {"gridOpacity": 0.4, "tickCount": DECADES, **labels(name)}
    return channel(name, "quantitative", scale=scale, title=title, axis=ticks)


def shades(name: str, title: str, low: float, high: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """One scale of colours for lines, with its legend, and for points, whose legend would list every multiple."""
    scale = {"type": "log", "range": list(_SCALE), "domain": [low, (low * high) ** 0.5, high]}
    legend = {
        "type": "gradient",
        "orient": "top",
        "direction": "horizontal",
        "gradientLength": 260,
        "tickCount": 4,
        **labels(name),
    }
    of_lines = channel(name, "quantitative", scale=scale, title=title, legend=legend)
    return of_lines, {**of_lines, "legend": None}


def values(*fields: str) -> list[dict[str, Any]]:
    """What stands beside the pointer: these columns as numbers."""
    return [channel(name, "quantitative") for name in fields]


def line(**more: Any) -> dict[str, Any]:
    """The mark of a line."""
    return {"type": "line", **more}


def dots(**more: Any) -> dict[str, Any]:
    """The mark of filled points."""
    return {"type": "point", "filled": True, **more}
