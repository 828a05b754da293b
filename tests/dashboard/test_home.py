"""The first page answers what its commands print, for models of every kind, and leads on."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from calc.units import duration, si
from dashboard.menu import PAGES
from tests.dashboard.opening import cli, errors, metrics, opened, sound


def printed(at: Any) -> dict[str, dict[str, Any]]:
    """Command -> what it prints, of every command below the card."""
    lines = [line for block in at.code for line in block.value.splitlines()]
    return {words[3]: cli(*words[3:])[0] for words in map(shlex.split, lines)}


def test_it_opens_first() -> None:
    assert PAGES[0].path == "home"


@pytest.mark.parametrize(("model", "gpu"), [("llama-3-8b", "l40s"), ("gpt2", "h100-sxm")])
@pytest.mark.slow
def test_figures_are_those_of_the_command_line(model: str, gpu: str) -> None:
    at = opened("home", model=model, gpu=gpu)
    shown, told = metrics(at), printed(at)
    assert errors(at) == []
    assert shown["Parameters"] == si(told["params"]["total"], "")
    assert told["memory"]["fits"]
    assert shown["Serving"] == si(told["serve"]["throughput"]["output"], "tok/s")
    # The last `predict` is the step of training; a token's stands before it.
    lines = [shlex.split(line) for block in at.code for line in block.value.splitlines()]
    token, step = (cli(*words[3:])[0] for words in lines if words[3] == "predict")
    assert shown["A token, alone"] == duration(token["seconds"])
    assert shown["Training"] == si(step["tokens_per_second"], "tok/s")
    assert step["fits"]


def test_what_does_not_fit_says_so_and_has_no_command() -> None:
    at = opened("home", model="deepseek-v3")
    shown = metrics(at)
    assert (shown["Fits on"], shown["A token, alone"], shown["Training"]) == ("no", "–", "> 8 GPUs")
    assert "serve" not in " ".join(block.value for block in at.code)


def test_a_model_without_tokens_to_come_is_answered_as_far_as_it_goes() -> None:
    at = opened("home", model="bert-base")
    assert metrics(at)["A token, alone"] == "–"
    assert metrics(at)["Serving"] != "–"
    sound(at.selectbox(key="gpu").set_value("l4").run())
    assert errors(at) == []


def test_a_price_changes_what_a_million_tokens_cost() -> None:
    at = opened("home", model="gpt2")
    before = [each.delta for each in at.metric]
    sound(at.number_input(key="price").set_value(4.0).run())
    assert [each.delta for each in at.metric] != before
