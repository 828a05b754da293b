"""The page Serve says what the command line says."""

from __future__ import annotations

import pytest

from calc.units import duration, si
from tests.dashboard.opening import cli, errors, metrics, opened, shown_command


@pytest.mark.parametrize("address", [{}, {"served": "fp8", "input": "3000", "fast": "20", "price": "2"}])
def test_serve_finds_the_plan_that_the_command_line_finds(address: dict[str, str]) -> None:
    at = opened("serve", model="llama-3-8b", **address)
    (said,) = cli(*shown_command(at))
    best, shown = said["best"], metrics(at)
    assert shown["Users at once"] == f"{best['concurrency']:,.0f}"
    assert shown["Tokens a second of a GPU"] == si(best["tokens_per_gpu"])
    assert shown["First token after"] == duration(best["ttft"])


def test_what_cannot_be_had_is_said_with_its_reason() -> None:
    (slow,) = errors(opened("serve", model="llama-3-70b", fast="500"))
    assert slow.endswith("none is that fast.")
    at = opened("serve", model="deepseek-v3", on="l40s")
    assert errors(at)[0].endswith("holds the model.")
    assert not at.get("vega_lite_chart")
