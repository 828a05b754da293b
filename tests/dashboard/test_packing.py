"""Descriptions in links."""

from __future__ import annotations

import zlib
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc.errors import Refused
from dashboard import packing


@given(st.text(max_size=2000))
def test_what_is_packed_comes_back(text: str) -> None:
    packed = packing.pack(text)
    if packed is not None:
        assert packing.unpack(packed) == text
        assert packed.isascii()
        assert not set(packed) - set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@given(st.text(max_size=200))
def test_anything_else_is_refused(text: str) -> None:
    try:
        packing.unpack(text)
    except Refused as refusal:
        assert "\n" not in str(refusal)


def test_a_bomb_is_not_unpacked() -> None:
    bomb = urlsafe_b64encode(zlib.compress(b"0" * 2 * 10**6, 9)).decode()
    assert len(bomb) <= packing.MAX_PACKED  # two megabytes in a link
    with pytest.raises(Refused, match="at most 256 KiB"):
        packing.unpack(bomb)


def test_json_travels_without_its_spaces() -> None:
    assert packing.compact('{\n  "a": [1, 2]\n}', "json") == '{"a":[1,2]}'
    assert packing.compact("a = 1\n", "toml") == "a = 1\n"
