"""The Model page shows what the command line prints."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from calc.architectures import from_config
from calc.conventions import flops
from calc.spec.run import Run
from calc.units import binary, si
from dashboard import packing
from tests.architectures.cases_vision import SEEING
from tests.dashboard.opening import cli, errors, metrics, opened, shown_command, sound


def charts(at: AppTest) -> list[dict[str, Any]]:
    """The charts of a page, in order."""
    return [json.loads(each.proto.spec) for each in at.get("vega_lite_chart")]


def rows(chart: dict[str, Any]) -> list[dict[str, Any]]:
    """What the first layer of a chart draws."""
    return chart["layer"][0]["data"]["values"]


@pytest.mark.parametrize("model", ["llama-3-8b", "mixtral-8x7b", "gemma-2-9b"])
def test_figures_are_those_of_the_command_line(model: str) -> None:
    at = opened("model", model=model, seq="4096", batch="2")
    (params,), (flops,) = cli("params", model), cli(*shown_command(at))
    (cache,) = cli("kv-cache", model, "--seq", "4096", "--batch", "2")
    shown = metrics(at)
    assert shown["Parameters"] == si(params["total"])
    assert shown["Active a token"] == si(params["active"])
    assert shown["FLOPs, training"] == si(flops["total"], "FLOP")
    assert shown["KV cache, bf16"] == binary(cache["total_bytes"])
    exact = [each.help for each in at.metric]
    assert exact[:3] == [f"{n:,}" for n in (params["total"], params["active"], flops["total"])]
    drawn = {row["component"]: row["parameters"] for row in rows(charts(at)[1]) if not row["model"].endswith("active")}
    assert drawn == params["components"]


def test_a_moved_slider_and_another_phase_are_counted_anew() -> None:
    at = opened("model", model="gpt2")
    sound(at.select_slider(key="seq").set_value(512).run())
    assert metrics(at)["FLOPs, training"] == si(cli(*shown_command(at))[0]["total"], "FLOP")
    sound(at.segmented_control(key="phase").set_value("decode").run())
    assert metrics(at)["FLOPs, decode"] == si(cli(*shown_command(at))[0]["total"], "FLOP")
    assert "--context 512" in at.code[0].value
    at = sound(at.segmented_control(key="phase").set_value("training").run())
    sound(at.selectbox(key="checkpointing").set_value("full").run())
    assert metrics(at)["FLOPs, training"] == si(cli(*shown_command(at))[0]["total"], "FLOP")


def test_bars_add_up_to_the_figures() -> None:
    at = opened("model", model="mixtral-8x7b", seq="1024")
    (flops,), (params,) = cli(*shown_command(at)), cli("params", "mixtral-8x7b")
    _, parameters, work, layers, _ = charts(at)
    assert sum(row["FLOP"] for row in rows(work)) == flops["total"]
    active = [row["parameters"] for row in rows(parameters) if row["model"] == "mixtral-8x7b, active"]
    assert sum(active) == params["active"]
    of_layers = sum(n for name, n in params["components"].items() if name not in ("embedding", "lm_head")) - 4096
    assert sum(row["value"] for row in rows(layers)) == of_layers  # all but the tables and the final norm


def test_conventions_are_side_by_side() -> None:
    at = opened("model", model="llama-3-8b", seq="8192")
    printed = {each["convention"]: each for each in cli("conventions", "--compare", "llama-3-8b", "--seq", "8192")}
    table = at.dataframe[-1].value
    assert list(table["convention"]) == list(printed)
    for shown in table.to_dict("records"):
        own = printed[shown["convention"]]
        assert shown["FLOP"] == own["total"]
        assert shown["to torch"] == own["ratio"]


def test_two_models_are_compared() -> None:
    at = opened("model", model="llama-3-8b", other="mixtral-8x7b")
    totals = {each["model"]: each["total"] for each in cli("params", "llama-3-8b", "mixtral-8x7b")}
    assert [each.value for each in at.metric if each.label == "Parameters"] == [si(n) for n in totals.values()]
    assert {row["model"].split(",")[0] for row in rows(charts(at)[1])} == set(totals)
    assert shown_command(at)[:3] == ["flops", "llama-3-8b", "mixtral-8x7b"]


def test_a_model_of_pictures_has_no_cache_and_no_decode() -> None:
    at = opened("model", model="ast-base")
    assert metrics(at)["KV cache, bf16"] == "none"
    assert "decode" not in at.segmented_control(key="phase").options
    assert errors(at) == []


@pytest.mark.parametrize("convention", ["megatron", "kaplan", "torchtitan", "causal-half"])
def test_the_switch_of_conventions_counts_as_the_command_line_does(convention: str) -> None:
    at = opened("model", model="llama-3-8b", seq="4096", convention=convention)
    words = shown_command(at)
    assert words[words.index("--convention") + 1] == convention
    (printed,) = cli(*words)
    assert metrics(at)["FLOPs, training"] == si(printed["total"], "FLOP")
    drawn = {row["product"]: row["FLOP"] for row in rows(charts(at)[2])}
    assert drawn == {name: printed[name] for name in ("linear", "attention", "other") if printed[name]}


def test_a_convention_without_a_word_for_a_model_leaves_the_rest_of_the_page() -> None:
    at = opened("model", model="llama-3-8b", other="bert-base", convention="megatron")
    assert errors(at) == []
    assert [each.value for each in at.metric if each.label == "FLOPs, training"][1] == "–"
    _, said = [each.value for each in at.info]
    assert said.startswith("`bert-base`: `convention: expected a decoder alone")
    at = opened("model", model="ast-base", convention="palm")
    assert errors(at) == []
    assert metrics(at)["FLOPs, training"] == "–"


def test_both_models_are_shown_layer_by_layer() -> None:
    at = opened("model", model="gpt2", other="mixtral-8x7b", by="active")
    _, every, _, *drawn, _ = charts(at)
    for chart, label in zip(drawn, ("gpt2", "mixtral-8x7b, active"), strict=True):
        whole = {row["component"]: row["parameters"] for row in rows(every) if row["model"] == label}
        of_layers: dict[str, float] = {}
        for row in rows(chart):
            of_layers[row["component"]] = of_layers.get(row["component"], 0) + row["value"]
        assert of_layers.pop("norm") < whole["norm"]  # the last one belongs to no layer
        assert of_layers == {name: whole[name] for name in of_layers}
        assert set(of_layers) == set(whole) - {"embedding", "positional", "norm", "lm_head"}


def test_pictures_are_counted_as_the_command_line_does_and_other_pages_say_that_they_are_not() -> None:
    config = json.dumps({"model_type": "gemma3", **SEEING["gemma3"][0]})
    address = {"from": "Config", "spec": str(packing.pack(config))}
    at = opened("model", phase="forward", seq="128", images="2", **address)
    spec = from_config(json.loads(config), "config")
    query = Run(phase="forward", seq=128, images=2)
    assert metrics(at)["FLOPs, forward"] == si(flops(spec, query).total, "FLOP")
    assert "--images 2" in at.code[-1].value
    for page in ("roofline", "memory"):
        said = [each.value for each in opened(page, **address).caption]
        assert "⚠ Of text alone: no pictures are counted here." in said
    assert not [each for each in opened("roofline", model="gpt2").caption if "pictures" in each.value]


def test_the_diagram_shows_each_block_with_the_parameters_of_the_command_line() -> None:
    drawn = charts(opened("model", model="mixtral-8x7b"))[0]
    blocks = next(layer["data"]["values"] for layer in drawn["layer"] if "params" in layer)
    of_part = {row["path"]: row["parameters"] for row in blocks}
    shapes = {row["path"]: math.prod(row["shape"]) for row in cli("params", "mixtral-8x7b", "--by-path")}
    assert of_part["lm_head"] == f"{shapes['lm_head.weight']:,}"
    moe = sum(n for path, n in shapes.items() if path.startswith("layers.0.moe."))
    assert of_part["layers.{}.moe"].startswith(f"{moe:,}, ")
