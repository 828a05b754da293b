"""Recipes of Megatron-Bridge that describe its published rows: each is some row's, and FLOPs are as published."""

from __future__ import annotations

import tomllib
from functools import cache

import pytest

from calc import estimate
from calc.spec import ModelSpec
from tests.time.bridge_recipes import RECIPES, recipe_of
from tests.time.published import rows
from tests.time.training_rows import bridge_model


@cache
def bridge() -> list[dict[str, str]]:
    """The published rows."""
    return list(rows("training", "megatron_bridge_perf.csv"))


def test_every_recipe_is_that_of_a_row_and_of_a_release_whose_commit_is_known() -> None:
    read = tomllib.loads(RECIPES.read_text())
    told = {
        (model, system, each["precision"], release)
        for model, systems in read["recipes"].items()
        for system, recipes in systems.items()
        for each in recipes
        for release in each["releases"]
    }
    asked = {
        (row["model"].split(" (")[0], row["system"].removeprefix("DGX-").lower(), row["precision"], row["release"])
        for row in bridge()
    }
    assert len({recipe for words in asked if (recipe := recipe_of(*words)) is not None}) > 1
    assert len(told) == sum(recipe_of(*words) is not None for words in asked)
    assert {release for *_, release in told} == set(read["releases"])


def test_further_tokens_of_nemotron_are_in_its_published_flops() -> None:
    """TFLOP/s over tokens a second: of causal pairs, without the module a tenth less."""
    spec = bridge_model("Nemotron_3_Super")
    published = [
        1e12 * float(row["model_tflops_per_gpu"]) / float(row["tokens_per_s_per_gpu"])
        for row in bridge()
        if row["model"] == "Nemotron_3_Super"
    ]
    assert published == pytest.approx([_flops(spec, mtp=True)] * len(published), rel=0.03)
    assert min(published) > 1.09 * _flops(spec, mtp=False)


def _flops(spec: ModelSpec, mtp: bool) -> float:
    """Of a token in training, over sequences of 8,192."""
    return float(estimate(spec, "flops.training", seq=8192, convention="causal-exact", mtp=mtp).value) / 8192
