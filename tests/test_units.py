"""Numbers as people write and read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc.errors import Refused
from calc.units import binary, parse_amount, parse_tokens, si


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("7B", "parameters", 7 * 10**9),
        ("6.9e9", "parameters", 6_900_000_000),
        ("1_000", "parameters", 1000),
        ("124,439,808", "parameters", 124_439_808),
        ("350M", "parameters", 350 * 10**6),
        ("80GiB", "bytes", 80 * 2**30),
        ("80 GB", "bytes", 80 * 10**9),
        ("512B", "bytes", 512),
        ("2Ti", "bytes", 2 * 2**40),
        ("5.76e23 FLOP", "FLOP", 5.76e23),
        ("1EFLOP", "FLOP", 10**18),
    ],
)
def test_amounts(text: str, unit: str, value: float) -> None:
    assert parse_amount(text, unit) == value


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("seven", "parameters"),
        ("-7B", "parameters"),
        ("80GiB", "parameters"),
        ("1e999", "FLOP"),
        ("1e3 tokens", "bytes"),
        ("", "FLOP"),
        ("nan", "FLOP"),
        ("1 2", "FLOP"),
    ],
)
def test_refused_amounts(text: str, unit: str) -> None:
    with pytest.raises(Refused):
        parse_amount(text, unit)


@given(st.text(max_size=30), st.sampled_from(["parameters", "bytes", "FLOP"]))
def test_any_text_is_a_number_or_refused(text: str, unit: str) -> None:
    try:
        assert parse_amount(text, unit) >= 0
    except Refused as refusal:
        assert "\n" not in str(refusal)


def test_tokens_refuse_what_people_read_two_ways() -> None:
    assert parse_tokens("8Ki", "--seq") == 8192
    assert parse_tokens("4_096", "--seq") == 4096
    with pytest.raises(Refused, match='"8Ki" is 8192'):
        parse_tokens("8k", "--seq")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (8_030_261_248, "", "8.03B"),
        (124_439_808, "", "124M"),
        (999_950, "", "1.00M"),
        (48.2e9, "FLOP", "48.2 GFLOP"),
        (12, "", "12"),
        (3.14e23, "FLOP", "314 ZFLOP"),
    ],
)
def test_si(value: float, unit: str, text: str) -> None:
    assert si(value, unit) == text


def test_binary() -> None:
    assert [binary(n) for n in (512, 131072, 16060522496, 3 * 2**40)] == ["512 B", "128 KiB", "15.0 GiB", "3.00 TiB"]
