"""Charts as files and bytes: .png, .svg, or .html that opens without a network. Needs the extra `charts`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calc.charts.vega import Chart
from calc.errors import Refused

SUFFIXES = (".png", ".svg", ".html")
PIP = "pip install -e '.[charts]' in a clone"
PIXELS, WIDTH = 2, 720
"""A PNG's pixels for each of the chart's, and how many of those a chart is wide."""
_OF_OWN_WIDTH = {"width", "hconcat", "vconcat", "concat", "facet", "repeat"}
"""Keys of charts that say themselves how wide they are."""


def check(path: str | Path) -> None:
    """Errors: Refused for a path that no chart can be saved at, or without the extra: both before any work is done."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise Refused("--chart", f"a file ending in {', '.join(SUFFIXES)}", str(path))
    if not Path(path).resolve().parent.is_dir():
        raise Refused("--chart", "a file in a folder that is there", str(path))
    _converter()


def save(chart: Chart, path: str | Path, width: int = WIDTH) -> None:
    """Write a chart in the format that the path ends in; HTML holds its scripts and needs no network.

    width: of its frame, in pixels of the chart. Errors: as `check`; OSError where the file cannot be written.
    """
    check(path)
    Path(path).write_bytes(picture(chart, Path(path).suffix.lower()[1:], width))


def picture(chart: Chart, suffix: str, width: int = WIDTH) -> bytes:
    """A chart as the bytes of a `png`, `svg` or `html`; nothing is fetched for it.

    width: of its frame, in pixels of the chart. Errors: Refused where the extra is not installed.
    """
    convert = _converter()
    spec = dict(chart)
    if not _OF_OWN_WIDTH & spec.keys():
        spec |= {"width": width, "autosize": {"type": "fit", "contains": "padding"}}
    if suffix == "png":
        return convert.vegalite_to_png(spec, scale=PIXELS)
    if suffix == "html":
        return convert.vegalite_to_html(spec, bundle=True).encode()
    return convert.vegalite_to_svg(spec).encode()


def _converter() -> Any:
    """The module that turns Vega-Lite into pictures. Errors: Refused where the extra is not installed."""
    try:
        import vl_convert
    except ModuleNotFoundError as error:
        raise Refused("--chart", f"the extra charts: {PIP}", f"no module {error.name}") from None
    return vl_convert
