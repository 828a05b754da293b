"""The page Plan says what the command line says, and draws the plan that wins."""

from __future__ import annotations

import pytest

from calc.units import binary, duration
from dashboard import planned
from tests.dashboard.opening import cli, errors, metrics, opened, shown_command, sound
from tests.dashboard.test_model import charts

SMALL = {"model": "gpt2", "gpus": "8", "sequences": "64"}


@pytest.mark.parametrize(
    "address",
    [
        {},
        {"tool": "deepspeed", "cluster": "dgx-b200", "seq": "512", "price": "4", "billions": "300"},
        {"tool": "megatron-core", "tp_most": "2", "kept": "full", "headroom": "20", "least": "cost"},
    ],
)
def test_it_finds_the_plan_that_the_command_line_finds(address: dict[str, str]) -> None:
    at = opened("plan", **(SMALL | address))
    assert errors(at) == []
    (said,) = cli(*shown_command(at))
    shown = metrics(at)
    assert shown["Time of a step"] == duration(said["seconds"])
    assert shown["Reserved of a GPU"] == binary(said["memory_reserved"])
    assert shown["GPU-days"] == f"{said['gpu_hours'] / 24:,.0f}"
    assert said["launch"].strip() in [block.value.strip() for block in at.code]
    verdict = at.success[0].value
    assert f"{said['days']:,.1f} days" in verdict
    assert said["plan"]["recipe"] in verdict


def test_the_winner_is_drawn_from_its_peak_to_its_step_and_through_its_stages() -> None:
    at = opened("plan", **SMALL, tp_most="1")
    front, fall, stages = charts(at)
    assert front["layer"][2]["data"]["values"][0]["plan"] == front["layer"][1]["data"]["values"][0]["plan"]
    whole = fall["layer"][0]["data"]["values"][-1]["end"]
    assert duration(whole) == metrics(at)["Time of a step"]
    assert {row["kind"] for row in stages["layer"][1]["data"]["values"]} >= {"forward", "backward", "optimizer"}
    table = next(each.value for each in at.dataframe if "$ of the whole run" in each.value.columns)
    assert sum(table["share"].tolist()) == pytest.approx(1)


def test_where_nothing_fits_the_least_that_would_is_said() -> None:
    at = opened("plan", model="llama-3-70b", gpus="8", sequences="8", kept="none")
    (said,) = errors(at)
    assert "nothing fits" in said
    assert "GPUs would be enough" in said
    assert not at.metric


def test_what_no_plan_can_be_is_refused_and_the_page_goes_on() -> None:
    at = opened("plan", **SMALL, kept="selective-op", tool="megatron-core")
    assert len(errors(at)) == 1
    sound(at.selectbox(key="kept").set_value("any").run())
    assert errors(at) == []


def test_a_search_ends_where_others_would_wait_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned, "LONGEST", 0.0)
    at = opened("plan", model="llama-3-8b", gpus="64", sequences="128")
    (said,) = errors(at)
    assert "a search of at most 0 s here" in said
