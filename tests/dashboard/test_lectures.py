"""The page of lectures: claims, kinds of layers and trainings as the command line has them."""

from __future__ import annotations

from typing import Any

import pytest

from calc.charts import colours
from calc.teaching.claim import written
from tests.dashboard.opening import cli, metrics, opened, sound


def table(at: Any, column: str) -> Any:
    """The first table with that column."""
    return next(each.value for each in at.dataframe if column in each.value.columns)


def test_claims_are_those_of_the_command_line() -> None:
    at = opened("lectures")
    records = cli("lectures")
    shown = table(at, "the notes say")
    assert list(shown["verdict"]) == [each["verdict"] for each in records]
    computed = [written(each["computed"]) for each in records if each["computed"] is not None]
    assert list(shown["here"].dropna()) == computed
    recorded = [each["recorded"] for each in records if each["recorded"] is not None]
    assert list(shown["recorded"].dropna()) == recorded
    counted = {label.lower(): int(value) for label, value in metrics(at).items()}
    assert sum(counted.values()) == len(records)
    assert counted["wrong"] == sum(each["verdict"] == "wrong" for each in records)


def test_verdicts_are_coloured_and_the_model_is_out_of_the_way() -> None:
    at = opened("lectures", model="gpt2")
    styled = next(each for each in at.dataframe if "the notes say" in each.value.columns).proto.arrow_data.styler.styles
    verdicts = set(table(at, "the notes say")["verdict"])
    assert {colours.VERDICT_TINTS[verdict] for verdict in verdicts} <= {each for each in styled.split() if "#" in each}
    assert [each.label for each in at.sidebar.expander] == ["Model of the other pages"]
    assert not [each.label for each in opened("memory", model="gpt2").sidebar.expander]


def test_a_filter_keeps_what_it_says() -> None:
    at = opened("lectures")
    sound(at.pills(key="verdict").set_value(["wrong"]).run())
    assert set(table(at, "the notes say")["verdict"]) == {"wrong"}
    sound(at.pills(key="lecture").set_value([2]).run())
    assert at.info, "lecture 2 has no mistake, and the page says so"


def test_kinds_of_layers_are_those_of_the_command_line() -> None:
    at = opened("lectures", n="4096", d="1024")
    records = [each for each in cli("complexity", "--seq", "4096", "--d-model", "1024") if "layer" in each]
    shown = table(at, "FLOPs")
    assert list(shown["layer"]) == [each["layer"] for each in records]
    for column, name in (("FLOPs", "flops"), ("elements kept", "memory"), ("steps", "steps"), ("path", "path")):
        assert list(shown[column]) == [each[name] for each in records]


def test_trainings_are_those_of_the_command_line_and_nothing_is_faster_than_the_peak() -> None:
    records = cli("lectures", "--trainings")
    shown = table(opened("lectures"), "predicted")
    assert list(shown["predicted"]) == pytest.approx([each["predicted"] for each in records], rel=1e-12)
    assert {each["unit"] for each in records} == {"hours", "core-days"}
    for each in records:
        assert each["least"] < each["low"] < each["predicted"] < each["high"]
        assert each["least"] < each["printed"]
        assert each["verdict"] == ("within" if each["low"] <= each["printed"] <= each["high"] else "differs")
