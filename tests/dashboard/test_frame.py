"""What pages are made of: text shown as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard import frame
from tests.charts.test_colours import GREY, luminance


@given(st.text(max_size=60))
def test_text_of_a_user_stays_within_its_fence(text: str) -> None:
    shown = frame.verbatim(text)
    fence = shown[: len(shown) - len(shown.lstrip("`"))]
    inner = shown[len(fence) : -len(fence)]
    assert shown.endswith(fence)
    assert fence not in inner
    assert shown.isprintable()


@pytest.mark.parametrize("theme", GREY)
def test_words_can_be_read_on_both_backgrounds(theme: str) -> None:
    code = frame.INKS[theme]
    bright, dim = sorted(
        (luminance(tuple(int(code[i : i + 2], 16) for i in (1, 3, 5))), luminance(GREY[theme])), reverse=True
    )
    assert (bright + 0.05) / (dim + 0.05) >= 4.5
