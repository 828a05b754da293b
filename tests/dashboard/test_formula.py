"""The Formula page shows what `explain` and `solve` print."""

from __future__ import annotations

import shlex

import pytest
from streamlit.testing.v1 import AppTest

import calc
from calc.units import si
from tests.dashboard.opening import cli, errors, metrics, opened, sound


def asked(at: AppTest) -> list[str]:
    """The words of the command that explains; the one that solves stands first."""
    lines = [
        line for block in at.code for line in block.value.splitlines() if line.startswith("python -m calc explain")
    ]
    return shlex.split(lines[0])[3:]


@pytest.mark.parametrize(
    ("model", "part", "quantity"),
    [
        ("llama-3-8b", "model", "params"),
        ("llama-3-8b", "layers.{}.attention", "flops.training"),
        ("mixtral-8x7b", "layers.{}.moe", "params.active"),
        ("gemma-2-9b", "layers.{sliding}", "kv_cache"),
    ],
)
def test_formula_numbers_value_and_source_are_those_of_explain(model: str, part: str, quantity: str) -> None:
    at = opened("formula", model=model, part=part, quantity=quantity, seq="4096")
    (printed,) = cli(*asked(at))
    assert printed["quantity"] == quantity
    assert printed.get("part", "model") == part
    assert printed["latex"] in at.latex[0].value
    assert printed["numbers"] in [block.value for block in at.code]
    assert at.metric[0].help == f"{printed['value']:,} {printed['unit']}"
    assert any(printed["source"] in each.value for each in at.caption)
    moved = at.dataframe[-1].value.set_index("symbol")
    assert dict(moved["change"]) == {name: each["change"] for name, each in printed["sensitivity"].items()}


def test_a_click_on_a_part_opens_its_formula() -> None:
    at = opened("formula", model="gpt2")
    assert metrics(at)["Value"] == "124M"
    sound(at.radio(key="part").set_value("layers.{}.mlp").run())
    assert metrics(at)["Value"] == si(cli(*asked(at))[0]["value"])
    assert "8 d + 5" in at.latex[0].value


def test_every_quantity_of_the_whole_model_has_a_sheet() -> None:
    at, spec = opened("formula", model="llama-3-8b"), calc.load_model("llama-3-8b")
    names = at.selectbox(key="quantity").options
    assert "memory.peak" in names
    for name in names:
        sound(at.selectbox(key="quantity").set_value(name).run())
        assert errors(at) == []
        counted = calc.estimate(spec, name)
        assert at.metric[0].help == f"{counted.value:,} {counted.unit}"


def test_solve_answers_as_the_command_line_does() -> None:
    at = opened("formula", model="gpt2", equation="params=1.5B", **{"for": "n_layers"})
    (printed,) = cli("solve", "gpt2", "params=1.5B", "--for", "n_layers")
    table = at.dataframe[0].value
    assert list(table["n_layers"]) == [
        f"{printed['root']:,.6f}",
        *(f"{each['sizes']['n_layers']:,}" for each in printed["candidates"]),
    ]
    assert at.code[0].value == "python -m calc solve gpt2 params=1.5B --for n_layers"
    sound(at.text_input(key="equation").set_value("memory.peak<=80GiB").run())
    sound(at.selectbox(key="for").set_value("batch").run())
    assert errors(at) == []
    (best,) = cli("solve", "gpt2", "memory.peak<=80GiB", "--for", "batch")[0]["candidates"]
    assert list(at.dataframe[0].value["batch"])[-1] == f"{best['sizes']['batch']:,}"
    assert at.code[0].value.startswith("python -m calc solve gpt2 'memory.peak<=80GiB' --for batch --seq 1024")


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        ("seven", "expected a quantity, = or <="),
        ("params=lots", "expected a number of parameters"),
        ("params=1", "is not reached"),
        ("kv_cache<=<b>x</b>", "expected a number of bytes with its unit, such as 80GiB, found <b>x</b>"),
        ("params=9e49", "is not reached"),
    ],
)
def test_what_has_no_answer_is_one_plain_message(equation: str, message: str) -> None:
    at = opened("formula", model="gpt2", equation=equation, **{"for": "n_layers" if "params" in equation else "seq"})
    (shown,) = errors(at)
    assert shown.startswith("No answer: `")
    assert message in shown
    assert shown.endswith("`")
