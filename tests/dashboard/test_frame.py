"""What pages are made of: text shown as it is, pictures without a network, colours that stand out."""

from __future__ import annotations

import math
import struct
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard import colours, frame, memory_charts, vega

GREY = {"light": (255, 255, 255), "dark": (14, 17, 23)}
"""Streamlit's own backgrounds."""


@given(st.text(max_size=60))
def test_text_of_a_user_stays_within_its_fence(text: str) -> None:
    shown = frame.verbatim(text)
    fence = shown[: len(shown) - len(shown.lstrip("`"))]
    inner = shown[len(fence) : -len(fence)]
    assert shown.endswith(fence)
    assert fence not in inner
    assert shown.isprintable()


def drawn() -> list[vega.Chart]:
    """One chart of each kind."""
    rows = [{"a": "x", "b": "mlp", "n": 2.0, "shown": "2"}, {"a": "y", "b": "attention", "n": 3.0, "shown": "3"}]
    terms, capacities = {"weights": 2**30, "optimizer": 2**31}, {"l4": 2**34, "h200": 2**37}
    return [
        vega.stacked(rows, "a", "b", "n", vega.numbers("n"), ("attention", "mlp")),
        vega.columns(rows, "a", "b", "n", vega.numbers("n"), ("attention", "mlp"), 5.0),
        memory_charts.against(terms, terms, 3 * 2**30, capacities),
        memory_charts.timeline({"forward": terms, "loss": terms}, 2**34),
        memory_charts.caches([{"model": "m", "context": 2**n, "bytes": 2.0 ** (20 + n)} for n in range(7, 12)]),
    ]


@pytest.mark.parametrize("chart", drawn(), ids=lambda chart: chart["layer"][0]["encoding"]["y"]["field"])
def test_charts_are_saved_as_png_and_svg(chart: vega.Chart) -> None:
    png, svg = frame.picture(chart, "png"), frame.picture(chart, "svg").decode()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    assert width >= frame.PIXELS * frame.WIDTH
    assert height >= chart["height"]
    assert svg.startswith("<svg")
    assert "http" not in svg.replace("http://www.w3.org", "")


def test_charts_are_vega_lite() -> None:
    import altair as alt

    for chart in drawn():
        alt.Chart.from_dict(chart).to_dict()  # checks against the schema


def test_bars_of_bytes_have_round_marks() -> None:
    marks = vega.sizes("memory", 300 * 2**30)["values"]
    assert marks == [n * 64 * 2**30 for n in range(5)]
    assert vega.sizes("memory", 1)["values"] == [0, 1]


def luminance(rgb: tuple[int, ...]) -> float:
    """Relative luminance (WCAG 2.1)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (n / 255 for n in rgb)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("name", [*colours.COLOURS])
@pytest.mark.parametrize("theme", GREY)
def test_colours_stand_out_from_both_backgrounds(name: str, theme: str) -> None:
    code = colours.colour(name)
    bright, dim = sorted(
        (luminance(tuple(int(code[i : i + 2], 16) for i in (1, 3, 5))), luminance(GREY[theme])), reverse=True
    )
    assert (bright + 0.05) / (dim + 0.05) >= 3


def test_every_component_and_term_has_a_colour_of_its_own() -> None:
    from typing import get_args

    from calc.op import Component
    from harness.cases import KINDS

    for names in (get_args(Component), memory_charts.TERMS, KINDS):
        assert set(names) <= set(colours.COLOURS)


def lab(code: str) -> tuple[float, float, float]:
    """A colour in CIE L*a*b* (D65), in which equal distances look equal."""
    r, g, b = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (int(code[i : i + 2], 16) / 255 for i in (1, 3, 5))
    )
    white = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
    )
    x, y, z = (n ** (1 / 3) if n > 216 / 24389 else 841 / 108 * n + 4 / 29 for n in white)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def test_colours_of_one_legend_can_be_told_apart() -> None:
    from typing import get_args

    from calc.op import Component
    from harness.cases import KINDS

    components = [*get_args(Component), "loss", "network"]
    terms = [*memory_charts.TERMS, *memory_charts.VERDICTS]
    named = [[colours.colour(name) for name in names] for names in (components, terms, KINDS)]
    for legend in (*named, colours.SERIES):
        for one, other in combinations(legend, 2):
            assert math.dist(lab(one), lab(other)) >= 20, (one, other)
