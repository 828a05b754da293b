"""What pages are made of: text shown as it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dashboard import frame


@given(st.text(max_size=60))
def test_text_of_a_user_stays_within_its_fence(text: str) -> None:
    shown = frame.verbatim(text)
    fence = shown[: len(shown) - len(shown.lstrip("`"))]
    inner = shown[len(fence) : -len(fence)]
    assert shown.endswith(fence)
    assert fence not in inner
    assert shown.isprintable()
