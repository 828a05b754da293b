"""The page of scaling laws: its figures are those of `judge`, and what is uploaded is fitted as `fit` does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.opening import cli, errors, metrics, opened, shown_command, sound
from tests.dashboard.test_model import charts
from tests.reference import ROOT

pytest.importorskip("vl_convert")

RUNS = ROOT / "docs" / "example-runs.csv"


def test_figures_are_those_of_judge_with_the_law_and_tokens_of_the_link() -> None:
    at = opened("scaling", model="llama-3-70b", law="hoffmann-3", tokens="1.4T")
    judged = cli(*shown_command(at))[0]
    assert judged["law"] == "hoffmann-3"
    assert judged["tokens"] == 1.4e12
    shown = metrics(at)
    assert shown["Loss, nats a token"] == f"{judged['loss']:.4f}"
    assert shown["Tokens a parameter"] == f"{judged['tokens_per_param']:,.4g}"
    exact = {each.label: each.help for each in at.metric}
    assert exact["Best size for it"] == f"{judged['best_params']:,.0f}"
    assert any(f"{judged['past']:.3g} times what the law gives" in each.value for each in at.markdown)


def test_every_law_stands_in_the_table_as_on_the_command_line() -> None:
    at = opened("scaling", model="gpt2", tokens="9B")
    records = {each["law"]: each for each in cli("judge", "gpt2", "--tokens", "9B", "--law", "all")}
    table = at.dataframe[0].value.set_index("law")
    assert set(table.index) == {name for name, each in records.items() if "reason" not in each}
    for name in table.index:
        assert table.loc[name, "past"] == pytest.approx(records[name]["past"], rel=1e-12)
        assert table.loc[name, "best_params"] == pytest.approx(records[name]["best_params"], rel=1e-12)


def test_the_plane_has_lines_of_equal_loss_optima_of_every_law_a_band_and_the_model() -> None:
    at = opened("scaling", model="llama-3-8b", law="besiroglu", tokens="15T")
    plane, curves = charts(at)
    band, equal, optima, model = [each for each in plane["layer"] if {"params", "tokens"} <= set(values(each)[0])]
    assert [each["mark"]["type"] for each in (band, equal, optima, model)] == ["area", "line", "line", "point"]
    assert len({row["loss"] for row in values(equal)}) >= 5
    assert {"besiroglu", "kaplan", "hoffmann-1"} <= {row["law"] for row in values(optima)}
    (judged,) = cli("judge", "llama-3-8b", "--tokens", "15T", "--law", "besiroglu")
    assert values(model) == [{"params": judged["params"], "tokens": 15e12}]
    budgets = {row["compute"] for row in values(curves["layer"][0])}
    assert len(budgets) == 5
    assert any(each == pytest.approx(judged["compute"]) for each in budgets)


def values(layer: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows that a layer of a chart draws."""
    return layer["data"]["values"]


def test_a_change_of_tokens_changes_the_verdict() -> None:
    at = opened("scaling", model="llama-3-8b")
    before = metrics(at)
    sound(at.text_input(key="tokens").set_value("200B").run())
    after = metrics(at)
    assert float(after["Loss, nats a token"]) > float(before["Loss, nats a token"])
    assert not errors(at)


@pytest.mark.parametrize("tokens", ["<script>alert(1)</script>", "", "0", "-3", "1e60", "15 parsecs"])
def test_tokens_that_are_none_show_one_line(tokens: str) -> None:
    at = opened("scaling", model="llama-3-8b", tokens=tokens or "x")
    if not tokens:
        sound(at.text_input(key="tokens").set_value("").run())
    assert len(errors(at)) == 1
    assert errors(at)[0].startswith("No verdict: ")


@pytest.mark.parametrize("tokens", ["1", "9" * 40])
@pytest.mark.parametrize("law", ["besiroglu", "kaplan", "porian"])
def test_tokens_far_from_anything_are_drawn_or_refused_in_one_line(tokens: str, law: str) -> None:
    at = opened("scaling", model="llama-3-8b", tokens=tokens, law=law)
    assert len(errors(at)) + bool(metrics(at)) >= 1


def test_a_model_with_experts_is_among_the_optima_of_a_law_of_experts() -> None:
    at = opened("scaling", model="mixtral-8x7b")
    assert errors(at) == []
    law = str(at.selectbox(key="law").value)
    (printed,) = cli("judge", "mixtral-8x7b", "--tokens", "15T", "--law", law)
    assert metrics(at)["Loss, nats a token"] == f"{printed['loss']:.4f}"
    assert len(charts(at)) == 2
    at = opened("scaling", model="mixtral-8x7b", law="besiroglu")
    assert "without experts" in errors(at)[0]
    assert at.dataframe[-1].value.shape[0] == len(cli("laws"))


def test_uploaded_runs_are_fitted_as_the_command_line_fits_them() -> None:
    at = opened("scaling", model="gpt2", refits="100")
    at.file_uploader(key="runs").upload("example-runs.csv", RUNS.read_bytes(), "text/csv")
    sound(at.run())
    sound(at.button(key="fit").click().run())
    assert not errors(at)
    records = cli("fit", str(RUNS), "--law", "all", "--refits", "100")
    tables = {tuple(each.value.columns[:2]): each.value for each in at.dataframe}
    ranked = tables["form", "constants"]
    assert list(ranked["form"]) == [each["law"] for each in records if each["law"] != "average"]
    constants = tables["constant", "value"].set_index("constant")
    for name, value in records[0]["constants"].items():
        assert constants.loc[name, "value"] == pytest.approx(value, rel=1e-9)
        assert constants.loc[name, "95 % from"] == pytest.approx(records[0]["intervals"][name]["low"], rel=1e-9)
    sound(at.selectbox(key="form").set_value("isoflop").run())
    assert "constant" not in {each.value.columns[0] for each in at.dataframe}, "the last fit was made otherwise"


HOSTILE = {
    "nothing": b"",
    "binary": bytes(range(256)) * 40,
    "html": b"<html><body onload=alert(1)>\n<script>alert(1)</script>",
    "no-columns": b"a,b\n1,2\n",
    "text": b"params,tokens,loss\n1e6,1e9,<b>4</b>\n2e6,1e9,3\n",
    "negative": b"params,tokens,loss\n-1e6,1e9,4\n2e6,1e9,3\n",
    "infinite": b"params,tokens,loss\n1e999,1e9,4\n2e6,nan,3\n",
    "one-row": b"params,tokens,loss\n1e6,1e9,4\n",
    "ragged": b"params,tokens,loss\n1,2,3,4,5\n1\n",
    "wide": b",".join(b"c%d" % i for i in range(5000)) + b"\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_is_no_runs_shows_one_line(name: str) -> None:
    at = opened("scaling", model="gpt2", refits="0")
    at.file_uploader(key="runs").upload("../../<img src=x>.csv", HOSTILE[name], "text/csv")
    sound(at.run())
    sound(at.button(key="fit").click().run())
    assert len(errors(at)) == 1
    assert errors(at)[0].startswith("These runs cannot be fitted: `")
    assert "\n" not in errors(at)[0]
