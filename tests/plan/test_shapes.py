"""Shapes of a family with their plans: `plan --model-grid` under a budget, and `optimal --cluster` by a law."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

import calc
from tests.cli.test_commands import Run, run

__all__ = ["run"]
GPUS = ("--cluster", "dgx-h100", "--gpus", "8", "--seq", "1024", "--stack", "fsdp2")
GRID = (
    "plan",
    "gpt2",
    *GPUS,
    "--global-batch",
    "64seq",
    "--at-most",
    "batch=4",
    "--at-most",
    "tp=1",
    "--at-most",
    "cp=1",
)
SIZES = "d_model=768..1100:64,n_layers=12,16"


def records(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_shapes_are_within_the_budget_divisible_and_the_fastest_first(run: Run) -> None:
    status, out, _ = run(*GRID, "--model-grid", SIZES, "--params", "210M", "--flops", "1e20", "--json")
    found = records(out)
    assert status == 0
    assert [each["rank"] for each in found] == list(range(1, len(found) + 1))
    assert [each["days"] for each in found] == sorted(each["days"] for each in found)
    # Of 768 to 1,088 only these are multiples of a tile; the widest and deepest is beyond the budget.
    assert {each["sizes"]["d_model"] for each in found} == {768, 896, 1024}
    assert {"d_model": 1024, "n_layers": 16} not in [each["sizes"] for each in found]
    for each in found:
        assert each["params"] <= 210e6
        spec = calc.with_sizes(calc.load_model("gpt2"), {"n_heads": each["sizes"]["d_model"] // 64, **each["sizes"]})
        assert each["params"] == calc.estimate(spec, "params").value
        tokens = 1e20 / (6 * each["params"])
        steps = tokens / each["best"]["tokens"]
        assert each["days"] >= steps * each["best"]["seconds"] / 86400
        assert each["loss"] == pytest.approx(
            calc.loss("besiroglu", params=each["params"], tokens=tokens).loss, rel=0.02
        )


def test_a_plan_s_command_is_of_the_model_that_it_plans(run: Run) -> None:
    """The model's own shape has one, which gives the same seconds; of another shape no name is known."""
    _, out, _ = run(*GRID, "--model-grid", "n_layers=12,16", "--params", "1B", "--json")
    own, other = sorted((each["best"] for each in records(out)), key=lambda best: best["model"])
    assert (own["model"], other["model"]) == ("gpt2", "gpt2 with n_layers 16")
    _, alone, _ = run(*shlex.split(own["command"])[3:])
    assert json.loads(alone)["seconds"] == pytest.approx(own["seconds"], rel=1e-9)
    assert other["command"] is None
    assert other["seconds"] > own["seconds"]


def test_a_resized_model_has_no_preset_s_command() -> None:
    changed = calc.with_sizes(calc.load_model("gpt2"), {"n_layers": 6})
    for model, named in ((calc.load_model("gpt2"), True), (changed, False)):
        found = calc.search_plans(model, "dgx-h100", 8, 1024, 65536, at_most={"batch": 2, "tp": 1, "cp": 1}, top=1)
        assert (found.records()[0]["command"] is not None) == named


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model-grid", SIZES), "--model-grid: expected --params or --flops beside it"),
        (("--model-grid", "width=768", "--params", "1B"), "--model-grid: expected a size of gpt2: "),
        (("--model-grid", "768", "--params", "1B"), "--model-grid: expected size=values"),
        (("--model-grid", "d_model=1024..512", "--params", "1B"), "--model-grid: expected a range upwards"),
        (("--model-grid", SIZES, "--params", "1M"), "--model-grid: expected a grid with a shape that is divisible"),
        (
            ("--model-grid", "d_model=128..25600:128,n_layers=1..250", "--params", "1B"),
            "--model-grid: expected at most",
        ),
    ],
)
def test_a_grid_that_says_nothing_is_refused_in_one_line(run: Run, words: tuple[str, ...], said: str) -> None:
    status, _, err = run(*GRID, *words)
    assert status == 2
    assert said in err
    assert len(err.splitlines()) == 1


@pytest.mark.slow
def test_size_tokens_and_plan_follow_together(run: Run) -> None:
    """What the plan reaches is what the law was asked with, and the run ends within its days."""
    status, out, err = run("optimal", *GPUS, "--days", "1", "--family", "gpt2", "--global-batch", "256seq", "--json")
    assert status == 0, err
    (found,) = records(out)
    plan, (shape,) = found["plan"], found["shapes"]
    assert found["apart"] <= 0.1
    alone = calc.optimal(found["law"], compute=found["compute"], family=calc.load_model("gpt2"), seq=1024)
    assert (found["params"], found["tokens"]) == pytest.approx((alone.params, alone.tokens), rel=1e-6)
    assert shape["params"] == pytest.approx(found["params"] * (1 + shape["off"]))
    assert plan["model"] == "gpt2 with " + ", ".join(f"{name} {shape[name]}" for name in list(shape)[:-2])
    assert plan["command"] is None
    assert plan["fits"]
    days = found["tokens"] / plan["tokens_per_second"] / 86400
    assert 0.85 <= days <= 1.1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--gpus", "8", "--days", "1"), "--family: expected a value beside --cluster"),
        (("--gpus", "8", "--family", "gpt2"), "--days: expected a value beside --cluster"),
        (("--gpus", "8", "--days", "1", "--family", "gpt2", "--mfu", "40%"), "--mfu: expected none beside --cluster"),
        (
            ("--gpus", "8", "--days", "1", "--family", "gpt2", "--law", "all"),
            "--law: expected one law beside --cluster",
        ),
    ],
)
def test_what_a_cluster_cannot_be_asked_is_refused(run: Run, words: tuple[str, ...], said: str) -> None:
    status, _, err = run("optimal", "--cluster", "dgx-h100", *words)
    assert status == 2
    assert said in err
