"""`predict` of a plan on a cluster, and `clusters`, on the command line: what scripts rely on."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import calc
from calc.time import predict
from calc.time.economics import best_interval, checkpoint_bytes, economics
from tests.cli.test_commands import Run, run

__all__ = ["run"]

PLAN = ("--phase", "training", "--cluster", "dgx-h100", "--gpus", "64", "--stack", "megatron-core", "--tp", "4")
KEYS = ("seconds", "tokens", "tokens_per_second", "mfu", "interval", "gpus", "plan", "fits", "waterfall")


def test_a_plan_answers_with_what_scripts_read(run: Run) -> None:
    arguments = (
        "--pp",
        "4",
        "--interleave",
        "2",
        "--zero",
        "1",
        "--micro-batches",
        "8",
        "--batch",
        "2",
        "--seq",
        "4096",
    )
    status, out, _ = run(
        "predict", "llama-3-8b", *PLAN, *arguments, "--dtype", "fp8", "--checkpointing", "none", "--json"
    )
    record = json.loads(out)
    assert status == 0
    assert set(KEYS) <= set(record)
    assert set(record["interval"]) == {"level", "low", "high"}
    assert (record["gpus"], record["plan"]["dp"], record["plan"]["tp"], record["plan"]["pp"]) == (64, 4, 4, 4)
    assert record["tokens"] == 4 * 2 * 8 * 4096
    assert record["fits"] is True
    assert sum(bar["seconds"] for bar in record["waterfall"]) == pytest.approx(record["seconds"])
    assert all(set(bar) == {"what", "seconds"} and bar["seconds"] > 0 for bar in record["waterfall"])


@pytest.mark.parametrize("dtype", ["bf16-mixed", "fp8", "nvfp4", "int8", "fp16-mixed"])
@pytest.mark.parametrize("cluster", ["dgx-b200", "gb300-nvl72", "mi355x"])
def test_every_recipe_has_a_time_where_its_format_has_a_peak(run: Run, dtype: str, cluster: str) -> None:
    status, out, err = run(
        "predict", "gpt2", *("--phase", "training", "--cluster", cluster, "--gpus", "8"), "--dtype", dtype, "--json"
    )
    peak = {"nvfp4": "fp4", "int8": "int8", "fp8": "fp8"}.get(dtype, "bf16")
    known = calc.load_device(json.loads(run("clusters", cluster, "--json")[1])["gpu"]).known_peaks
    assert status == (0 if peak in known else 2), err
    if status == 0:
        assert json.loads(out)["seconds"] > 0


def test_low_rank_updates_on_a_plan(run: Run) -> None:
    _, out, _ = run("predict", "llama-3-8b", *PLAN, "--lora-rank", "16", "--micro-batches", "1", "--json")
    _, whole, _ = run("predict", "llama-3-8b", *PLAN, "--micro-batches", "1", "--json")
    assert 0.1 < json.loads(out)["seconds"] / json.loads(whole)["seconds"] < 0.9


def test_tables_show_the_waterfall_and_the_whole_run(run: Run) -> None:
    status, out, _ = run("predict", "llama-3-8b", *PLAN, "--waterfall", "--tokens", "1T", "--price", "2/h")
    assert status == 0
    assert "shapes of products" in out
    assert "GPU-hours" in out
    assert "Young, Daly" in out


def test_a_timeline_is_saved(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "step.json"
    status, _, _ = run("predict", "llama-3-8b", *PLAN, "--pp", "4", "--timeline", str(path))
    assert status == 0
    assert {event["pid"] for event in json.loads(path.read_text())["traceEvents"]} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--gpus", "60"), "gpus: expected a multiple of tp * pp * cp"),
        (("--gpus", "64", "--dp", "3"), "gpus: expected dp * tp * pp * cp"),
        (("--cluster", "dgx-h1000"), "cluster: expected"),
        (("--stack", "megatron"), "stack: expected one of"),
        (("--stages", "8,8,x"), "--stages: expected whole numbers"),
        (("--price", "2/h"), "--tokens: expected"),
        (("--tokens", "1T", "--price", "much"), "--price: expected money"),
        (("--timeline", "step.png"), "--timeline: expected a file that ends in .json"),
    ],
)
def test_refusals_take_one_line(run: Run, arguments: tuple[str, ...], said: str) -> None:
    status, out, err = run(
        "predict", "llama-3-8b", *("--phase", "training", "--cluster", "dgx-h100", "--tp", "8"), *arguments
    )
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_stages_are_told_by_how_many_are_alike(run: Run) -> None:
    _, out, _ = run("predict", "llama-3-8b", *PLAN, "--pp", "4", "--stages", "7,9x2,7", "--json")
    assert json.loads(out)["plan"]["stages"] == [7, 9, 9, 7]


def test_clusters_are_listed_by_name(run: Run) -> None:
    _, out, _ = run("clusters", "--json")
    names = {json.loads(line)["cluster"] for line in out.splitlines()}
    assert {"dgx-a100", "dgx-h100", "dgx-h200", "dgx-b200", "dgx-b300", "gb200-nvl72", "gb300-nvl72"} <= names
    assert {"mi300x", "mi325x", "mi355x", "h800", "tpu-v5p", "tpu-v6e", "l40s", "p4d", "p5", "a3-mega"} <= names


def test_the_best_interval_is_the_best() -> None:
    """Against all others, by Daly's expected time (equation 20) written out; near Young's where failures are rare."""
    write, between, restart = 60.0, 40_000.0, 300.0

    def share(interval: float) -> float:
        lost = between * math.exp(restart / between) * (math.exp((interval + write) / between) - 1)
        return interval / lost

    found, interval = best_interval(write, between, restart)
    assert found == pytest.approx(max(share(10.0 * n) for n in range(1, 2000)), rel=1e-5)
    assert interval == pytest.approx(math.sqrt(2 * write * between), rel=0.05)
    assert best_interval(100.0, 10.0, 1.0)[0] < 0.01


def test_a_run_is_its_steps_and_what_failures_take() -> None:
    spec = calc.load_model("llama-3-8b")
    it = predict(spec, "h100-sxm", phase="training", seq=2048, dp=8, recipe="bf16-master", zero=1, cluster="dgx-h100")
    found = economics(spec, it, calc.load_device("h100-sxm"), tokens=10**9, price=2.0, mtbf=1e9, restart=1.0, pue=1.0)
    assert found.steps == math.ceil(10**9 / (8 * 2048))
    # With a failure in a hundred thousand years nothing but steps takes time.
    assert found.goodput == pytest.approx(1, abs=1e-3)
    assert found.days * 86400 == pytest.approx(found.steps * it.seconds, rel=1e-3)
    assert found.gpu_hours == pytest.approx(found.days * 24 * 8)
    assert found.money == pytest.approx(2 * found.gpu_hours)
    assert found.energy == pytest.approx(0.7 * found.gpu_hours)
    assert found.days_between[0] < found.days < found.days_between[1]
    # Weights in bf16, a copy and two moments in fp32: 14 bytes a parameter.
    assert checkpoint_bytes(spec, it.run) == pytest.approx(14 * 8_030_261_248)


@pytest.mark.parametrize(
    ("stack", "dtype", "recipe"),
    [
        ("megatron-core", "bf16-mixed", "bf16-master"),
        ("torchtitan", "bf16-mixed", "bf16-fsdp"),
        ("llm-foundry", "fp8", "fp8-fsdp"),
        ("megatron-core", "fp8", "fp8"),
    ],
)
def test_a_general_recipe_stands_for_the_stacks(run: Run, stack: str, dtype: str, recipe: str) -> None:
    words = ("--phase", "training", "--cluster", "dgx-h100", "--gpus", "8", "--stack", stack, "--dtype", dtype)
    assert json.loads(run("predict", "gpt2", *words, "--json")[1])["dtype"] == recipe


def test_intervals_say_where_they_were_not_checked(run: Run) -> None:
    words = ("--phase", "training", "--cluster", "dgx-h100", "--stack", "megatron-core", "--json")
    for gpus, said in ((512, False), (1024, True)):
        notes = json.loads(run("predict", "gpt2", *words, "--gpus", str(gpus))[1])["notes"]
        assert any("too few published steps" in note for note in notes) == said


def test_a_share_that_is_not_its_time_is_explained(run: Run) -> None:
    """ZeRO-3 gathers weights behind computing: such a row has more seconds than its share comes to."""
    words = ("predict", "gpt2", "--phase", "training", "--gpu", "h100-sxm", "--batch", "16", "--by-op")
    for more, hidden in (((), False), (("--dp", "8", "--zero", "3", "--network", "50GB"), True)):
        (record,) = map(json.loads, run(*words, *more, "--json")[1].splitlines())
        assert any(op["share"] * record["seconds"] < 0.9 * op["seconds"] for op in record["ops"]) == hidden
        assert ("hidden behind computing" in run(*words, *more)[1]) == hidden
