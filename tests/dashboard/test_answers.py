"""The sentence that a page begins with says what its figures say, which other tests hold against the command line."""

from __future__ import annotations

import pytest

import calc
from calc.ask.report import report
from tests.dashboard.opening import metrics, opened, sound


@pytest.mark.parametrize("page", ["home", "model"])
@pytest.mark.parametrize("model", ["mixtral-8x7b", "bert-base"])
def test_a_model_is_told_as_its_report_tells_it(page: str, model: str) -> None:
    assert opened(page, model=model).info[0].value == report(calc.load_model(model)).verdict


@pytest.mark.parametrize(
    ("page", "address", "labels"),
    [
        ("roofline", {"phase": "decode"}, ("Time of a token", "Bound by")),
        ("roofline", {"phase": "training"}, ("Time of a step", "Bound by")),
        ("scaling", {"tokens": "2T"}, ("Tokens a parameter",)),
        ("attention", {"seq": "4096"}, ("Bytes moved", "Time")),
        ("attention", {"seq": "128"}, ("Bytes moved", "Time")),
        ("lectures", {}, ("Wrong", "Rounded")),
    ],
)
def test_the_sentence_has_the_figures(page: str, address: dict[str, str], labels: tuple[str, ...]) -> None:
    at = opened(page, model="gpt2", **address)
    for label in labels:
        assert metrics(at)[label] in at.info[0].value, label


def test_the_first_size_that_can_be_built_is_the_answer() -> None:
    at = opened("formula", model="llama-3-8b")
    table = at.dataframe[0].value
    size, value, off = (table[name][1] for name in ("d_model", "params", "off by"))
    assert at.info[0].value == f"d_model = {size} gives params = {value}, {off} off."
    sound(at.text_input(key="equation").set_value("kv_cache<=40GiB").run())
    sound(at.selectbox(key="for").set_value("batch").run())
    assert at.info[0].value.startswith(f"batch = {at.dataframe[0].value['batch'].iloc[-1]} gives kv_cache = ")
