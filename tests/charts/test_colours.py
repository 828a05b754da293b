"""Colours that stand out, from the background and from each other."""

from __future__ import annotations

import math
from itertools import combinations
from typing import get_args

import pytest

from calc.charts import colours, memory
from calc.trace.op import Component
from harness.cases import KINDS
from tests.charts.kinds import KINDS as CHARTS

GREY = {"light": (255, 255, 255), "dark": (14, 17, 23)}
"""Streamlit's own backgrounds."""


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


@pytest.mark.parametrize("kind", ["roofline", "bandwidth", "fall", "plans", "memory against GPUs", "stacked"])
def test_words_of_a_chart_have_the_colour_of_the_page(kind: str) -> None:
    for each in CHARTS[kind]()["layer"]:
        if isinstance(each["mark"], dict) and each["mark"]["type"] == "text":
            assert "color" not in each["mark"]


def test_every_component_and_term_has_a_colour_of_its_own() -> None:
    for names in (get_args(Component), memory.TERMS, KINDS):
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
    components = [*get_args(Component), "loss", "network"]
    terms = [*memory.TERMS, *memory.VERDICTS]
    named = [[colours.colour(name) for name in names] for names in (components, terms, KINDS)]
    for legend in (*named, colours.SERIES):
        for one, other in combinations(legend, 2):
            assert math.dist(lab(one), lab(other)) >= 20, (one, other)
