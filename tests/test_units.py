"""Numbers as people write and read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc.cli.amounts import Share
from calc.errors import Refused
from calc.units import binary, duration, four, parse_amount, parse_bytes, parse_rate, parse_tokens, si


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
        ("5.76e23 FLOP", "FLOP", 576 * 10**21),
        ("8.03B", "parameters", 8_030_000_000),
        ("1.005M", "parameters", 1_005_000),
        ("1e30", "FLOP", 10**30),
        ("9" * 50, "FLOP", 10**50 - 1),
        ("1.5", "parameters", 1.5),
        ("1EFLOP", "FLOP", 10**18),
    ],
)
def test_amounts(text: str, unit: str, value: float) -> None:
    amount = parse_amount(text, unit)
    assert (amount, type(amount)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("seven", "parameters"),
        ("-7B", "parameters"),
        ("80GiB", "parameters"),
        ("1e999", "FLOP"),
        ("1e50", "FLOP"),
        ("9" * 400, "parameters"),
        ("9" * 5000, "parameters"),
        ("0." + "0" * 5000, "parameters"),
        ("1e3 tokens", "bytes"),
        ("", "FLOP"),
        ("nan", "FLOP"),
        ("1 2", "FLOP"),
    ],
)
def test_refused_amounts(text: str, unit: str) -> None:
    with pytest.raises(Refused) as refusal:
        parse_amount(text, unit)
    assert len(str(refusal.value)) < 150


@given(st.text(max_size=30), st.sampled_from(["parameters", "bytes", "FLOP"]))
def test_any_text_is_a_number_or_refused(text: str, unit: str) -> None:
    try:
        assert parse_amount(text, unit) >= 0
    except Refused as refusal:
        assert "\n" not in str(refusal)


@pytest.mark.parametrize(
    "text", ["50GB", "50GB/s", " 50 GB/s ", "400Gbps", "400 Gb/s", "400Gbit/s", "0.4Tbps", "50e9B/s"]
)
def test_rates_are_read_in_bytes_or_bits(text: str) -> None:
    assert parse_rate(text, "--network") == 50e9


@pytest.mark.parametrize(
    "text", ["400", "400gbps", "50GB/h", "0Gbps", "-1Gbps", "Gbps", "50GBps", "400Gb", "", "1" * 5000]
)
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(Refused, match=r"^--network: expected "):
        parse_rate(text, "--network")


def test_a_rate_without_a_unit_is_told_of_rates() -> None:
    with pytest.raises(Refused, match=r"such as 50GB/s or 400Gbps, found 400$"):
        parse_rate("400", "--network")


def test_numbers_of_tokens_below_none_are_out_of_range_and_no_strangers() -> None:
    with pytest.raises(Refused, match=r"--batch: expected a whole number from 1 to 2\^40, found -3$"):
        parse_tokens("-3", "--batch", 1)


@pytest.mark.parametrize(("text", "share"), [("0.4", 0.4), ("40%", 0.4), ("40 %", 0.4), ("1", 1.0), ("100%", 1.0)])
def test_shares_may_be_percents(text: str, share: float) -> None:
    assert Share().convert(text, None, None) == share


@pytest.mark.parametrize("text", ["40", "101%", "0", "0%", "%", "nan", "inf", "-1%", ""])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="a share above 0 and up to 1"):
        Share().convert(text, None, None)


def test_tokens_refuse_what_people_read_two_ways() -> None:
    assert parse_tokens("8Ki", "--seq") == 8192
    assert parse_tokens("4_096", "--seq") == 4096
    with pytest.raises(Refused, match='"8Ki" is 8192'):
        parse_tokens("8k", "--seq")


@pytest.mark.parametrize("text", ["0", "1_099_511_627_777", "9999999999999Ki", "9" * 38, "9" * 5000])
def test_tokens_beyond_their_bounds_are_told_them(text: str) -> None:
    assert parse_tokens("1099511627776", "--seq", least=1) == 2**40
    with pytest.raises(Refused, match=r"--seq: expected a whole number from 1 to 2\^40, found [\d_]") as refusal:
        parse_tokens(text, "--seq", least=1)
    assert len(str(refusal.value)) < 150


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


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.12345, "0.1235"), (999.96, "1,000"), (1234.5, "1,234"), (1_234_567, "1,234,567"), (1.2345e21, "1.234e+21")],
)
def test_four_digits_tell(value: float, text: str) -> None:
    assert four(value) == text


def test_binary() -> None:
    assert [binary(n) for n in (512, 131072, 16060522496, 3 * 2**40)] == ["512 B", "128 KiB", "15.0 GiB", "3.00 TiB"]


def test_durations() -> None:
    values = (2.5e-9, 1.234e-5, 9.999e-4, 0.0456, 7.891, 1234.0)
    assert [duration(value) for value in values] == ["2.50 ns", "12.3 µs", "1.00 ms", "45.6 ms", "7.89 s", "1,234 s"]


@pytest.mark.parametrize("text", ["400Gb", "25 Gb", "80Gib"])
def test_bits_are_no_bytes(text: str) -> None:
    with pytest.raises(Refused, match="a small b stands for bits"):
        parse_bytes(text, "--network")
    assert parse_bytes(text.lower(), "--network") == parse_bytes(text.replace("b", "B"), "--network")
