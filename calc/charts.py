"""Saving charts: altair specs as .png, .svg or .html. Needs the extra `charts`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calc.errors import Refused

SUFFIXES = (".png", ".svg", ".html")
PIP = "pip install 'transformer-envelope[charts]'"
_PIXELS = 2
"""A PNG's pixels for each of the chart's."""
_WIDTH, _HEIGHT = 460, 320
INK, MARK = "#868e96", "#d6453d"
"""Of lines without a colour of their own, and of what is asked for: both stand out from white and from near-black."""
_SCALE = ("#5b6ee1", "#2fa39a", "#e0a100")
"""From low to high, legible on white and on near-black."""
_COUNT = "replace(format(datum.value, '~s'), 'G', 'B')"
_ROUND = "indexof([1, 2, 5], round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-9)))) >= 0"
"""Expressions of Vega."""


def altair() -> Any:
    """The altair module, with no limit on the rows of a chart. Errors: Refused where the extra is not installed."""
    try:
        import altair as module
        import vl_convert  # noqa: F401 (what saves the charts; better missed before one is made)
    except ModuleNotFoundError as error:
        raise Refused("--chart", f"the extra charts: {PIP}", f"no module {error.name}") from None
    module.data_transformers.disable_max_rows()
    return module


def check(path: str | Path) -> None:
    """Errors: Refused for a path that no chart can be saved at, or without the extra: both before any work is done."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise Refused("--chart", f"a file ending in {', '.join(SUFFIXES)}", str(path))
    if not Path(path).resolve().parent.is_dir():
        raise Refused("--chart", "a file in a folder that is there", str(path))
    altair()


def save(chart: Any, path: str | Path) -> None:
    """Write an altair chart in the format that the path ends in; HTML holds its scripts and needs no network.

    Errors: as `check`; OSError where the file cannot be written.
    """
    check(path)
    suffix = Path(path).suffix.lower()
    if suffix == ".html":
        chart.save(str(path), format="html", inline=True)
    else:
        chart.save(str(path), format=suffix[1:], **({"scale_factor": _PIXELS} if suffix == ".png" else {}))


def together(alt: Any, layers: list[Any], title: str) -> Any:
    """Layers in one frame, each with its own colours."""
    return alt.layer(*layers).resolve_scale(color="independent").properties(width=_WIDTH, height=_HEIGHT, title=title)


def drawn(alt: Any, rows: list[dict[str, Any]]) -> Any:
    """A chart of these rows: as a frame, since altair checks plain rows one by one, again and again."""
    import pandas

    return alt.Chart(pandas.DataFrame(rows))


def axis(alt: Any, name: str, title: str, upright: bool = False) -> Any:
    """A logarithmic axis for the column `name`: upright for a loss, else where `upright` says so."""
    channel = alt.Y if upright or name == "loss" else alt.X
    scale = alt.Scale(type="log", nice=False)
    return channel(f"{name}:Q", scale=scale, title=title, axis=alt.Axis(gridOpacity=0.4, **labels(name)))


def labels(name: str) -> dict[str, str]:
    """How an axis or a legend writes the numbers of a column: losses in full, FLOPs as 1e21, all else as 7B and 15T.

    Where a logarithmic axis has room, it writes 1, 2 and 5 of each power of ten.
    """
    if name == "loss":
        return {"format": ".2~f"}
    written = "format(datum.value, '.0e')" if name in ("compute", "budget") else _COUNT
    return {"labelExpr": f"{_ROUND} ? {written} : ''"}


def colours(alt: Any, name: str, title: str, low: float, high: float) -> tuple[Any, Any]:
    """One scale of colours for lines, with its legend, and for points, whose legend would list every multiple."""
    scale = alt.Scale(type="log", range=list(_SCALE), domain=[low, (low * high) ** 0.5, high])
    legend = alt.Legend(
        type="gradient", orient="top", direction="horizontal", gradientLength=260, tickCount=4, **labels(name)
    )
    return tuple(alt.Color(f"{name}:Q", scale=scale, title=title, legend=shown) for shown in (legend, None))
