"""What an answer says of its own run: all that it depends on, so that asking again by its words gives it again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

import calc
from calc.cli import cli
from calc.spec.run.precision import RECIPES
from calc.time import predict, step_times


def _told(*words: str) -> tuple[dict[str, Any], str]:
    """The record of a command, and the line of its table that tells the run."""
    found = CliRunner().invoke(cli, [*words, "--json"], catch_exceptions=False)
    table = CliRunner().invoke(cli, words, catch_exceptions=False).stdout
    assert found.exit_code == 0, found.stderr
    return json.loads(found.stdout), table[table.rindex("run: ") :].replace("\n ", " ").strip()


@pytest.mark.parametrize("recipe", [recipe.name for recipe in RECIPES])
def test_memory_and_time_take_one_optimizer(recipe: str) -> None:
    words = ("gpt2", "--recipe", recipe, "--seq", "64")
    held, line = _told("memory", *words)
    spec, asked = calc.load_model("gpt2"), {"recipe": recipe, "seq": 64}
    assert held["peak"] == calc.estimate(spec, "memory.peak", **asked).value
    # Of those that are known it has every format.
    columns = step_times(spec, "b200", phase="training", dp=[1, 2], **asked)
    assert columns.peak is not None
    assert held["peak"] == columns.peak[0]
    timed = predict(spec, "b200", phase="training", **asked)
    assert held["plan"]["optimizer"] == timed.run.usual_optimizer
    # Two moments a parameter, each as wide as PyTorch's AdamW makes it: bf16 beside bf16 weights alone.
    moment = 2 if recipe == "bf16" else 4
    copy = 4 if recipe in ("bf16-master", "bf16-zero", "fp8", "nvfp4") else 0
    assert held["optimizer"] == (2 * moment + copy) * 124_439_808
    named = held["plan"]["optimizer"]
    assert f", {named}, no checkpointing" in line
    assert (held["run"]["optimizer"], held["run"]["checkpointing"]) == (named, "none")


@pytest.mark.parametrize("command", ["memory", "predict"])
def test_help_says_the_same_of_the_usual_optimizer(command: str) -> None:
    text = " ".join(CliRunner().invoke(cli, [command, "--help"]).stdout.split())
    assert "what updates the weights. [default: adamw, adamw-bf16 where weights are in bf16 alone]" in text


def test_a_step_says_its_checkpointing_and_dropout() -> None:
    record, line = _told("memory", "gpt2", "--seq", "64", "--checkpointing", "full", "--dropout", "0.1")
    assert (record["run"]["checkpointing"], record["run"]["dropout"]) == ("full", 0.1)
    assert line.endswith("adamw, full checkpointing, dropout 0.1")
    assert "checkpointing full" not in _told("flops", "gpt2")[1]
    assert "full checkpointing" in _told("flops", "gpt2", "--phase", "training", "--checkpointing", "full")[1]


def test_a_cache_says_formats_of_what_it_keeps() -> None:
    record, line = _told("kv-cache", "rwkv7-1.5b", "--state-dtype", "bf16")
    assert record["run"]["formats"] == {"cache": "bf16", "state": "bf16"}
    assert line.endswith("cache bf16, state bf16")
    assert _told("kv-cache", "gpt2")[0]["run"]["formats"] == {"cache": "bf16"}


@pytest.mark.parametrize(("asked", "read"), [((), "absorbed"), (("--convention", "torch"), "expanded")])
def test_decoding_says_how_latents_are_read(asked: tuple[str, ...], read: str) -> None:
    record, line = _told("flops", "deepseek-v3", "--phase", "decode", *asked)
    assert record["run"]["latent_reading"] == read
    assert line.endswith(f"latents {read}")
    again, _ = _told("flops", "deepseek-v3", "--phase", "decode", *asked, "--latent-reading", read)
    assert again["total"] == record["total"]


@pytest.mark.parametrize(("asked", "read"), [(("--seq", "100"), 100), (("--seq", "100", "--source-seq", "70"), 70)])
@pytest.mark.parametrize("command", ["flops", "kv-cache", "memory", "report"])
def test_a_source_has_a_length(command: str, asked: tuple[str, ...], read: int) -> None:
    if command == "report":
        asked, read = ("--seq", "100"), 100
    record, line = _told(command, "transformer-base", *asked)
    assert record["run"]["source_seq"] == read
    assert f"source of {read}" in line


def test_attention_says_its_call() -> None:
    words = ("--seq", "256", "--heads", "4", "--kv-heads", "2", "--d-head", "32", "--causal", "--sram", "64KiB")
    found = CliRunner().invoke(cli, ["attention", *words, "--json"], catch_exceptions=False)
    for line in found.stdout.splitlines():
        run = json.loads(line)["run"]
        assert (run["seq"], run["keys"], run["heads"], run["kv_heads"], run["causal"]) == (256, 256, 4, 2, True)
        assert run["sram"] == 64 * 1024
    table = CliRunner().invoke(cli, ["attention", *words], catch_exceptions=False).stdout
    assert table.splitlines()[-1].startswith("run: batch 1, heads 4, kv_heads 2, seq 256, keys 256")


@pytest.mark.parametrize("preset", ["flashattention-table", "kv-grouping"])
def test_a_preset_of_attention_says_its_sizes(preset: str) -> None:
    words = ["attention", "--preset", preset]
    table = CliRunner().invoke(cli, words, catch_exceptions=False).stdout
    records = [json.loads(line) for line in CliRunner().invoke(cli, [*words, "--json"]).stdout.splitlines()]
    run = records[0]["run"]
    assert all(record["run"] == run for record in records)
    assert f"batch {run['batch']}, heads {run['heads']}" in table.splitlines()[-1]


def test_a_length_of_its_own_is_the_one_that_is_told() -> None:
    """What reads a picture or sound has as many vectors as these give, whatever a sequence of tokens has."""
    record, line = _told("memory", "vit-l")
    assert (record["run"]["seq"], record["run"]["tokens_a_step"]) == (
        197,
        197,
    )  # 16 x 16 patches of 224 x 224, one more
    assert "197 vectors a step" in line
    assert ", 197 vectors a step" in _told("flops", "vit-l")[1]
    record, line = _told("flops", "vit-l", "--image", "384x384")
    assert (record["run"]["seq"], "577 vectors a step" in line) == (577, True)  # 24 x 24 and one
    timed = predict(calc.load_model("vit-l"), "h100-sxm", phase="forward", image=(384, 384))
    assert timed.tokens_per_second == pytest.approx(577 / timed.seconds)
    for frames in (1000, 2000):
        asked = ("conformer-l", "--frames", str(frames))
        record, line = _told("predict", *asked, "--gpu", "h100-sxm", "--batch", "2")
        steps = record["run"]["seq"]
        assert steps == ((frames - 1) // 2 - 1) // 2  # two convolutions of 3, every second place
        assert record["tokens_per_second"] == pytest.approx(2 * steps / record["seconds"])
        assert f"{2 * steps:,} vectors a step" in line
        assert f"source of {frames:,}" in line
        assert CliRunner().invoke(cli, ["memory", *asked]).stderr == ""
    two, line = CliRunner().invoke(cli, ["flops", "vit-l", "ast-base"]).stdout, "1 micro-batch\n"
    assert two.endswith(line)
