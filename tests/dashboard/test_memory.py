"""The Memory page shows what `memory` and `kv-cache` print."""

from __future__ import annotations

import pytest

from calc import load_model
from calc.memory.advice import changes
from calc.spec.catalogue import load_device
from calc.spec.run import Run
from calc.units import binary
from dashboard import remedies
from tests.dashboard.opening import cli, errors, metrics, opened, shown_command, sound
from tests.dashboard.test_model import charts, rows

PLANS = [
    {"model": "llama-3-8b"},
    {
        "model": "llama-3-70b",
        "dp": "64",
        "zero": "3",
        "checkpointing": "full",
        "recipe": "bf16-zero",
        "tp": "8",
        "gradients": "fp32",
    },
    {"model": "mixtral-8x7b", "pp": "4", "ep": "8", "dp": "8", "optimizer": "adamw-8bit", "gpu": "h200"},
    {"model": "gpt2", "execution": "eager", "batch": "8"},
    {"model": "llama-3-8b", "mode": "inference", "dtype": "int8", "cache": "fp8", "batch": "16", "seq": "8192"},
    {"model": "llama-3-8b", "mode": "inference", "engine": "vllm", "tp": "2", "gpu": "l40s"},
    {"model": "bert-base", "mode": "inference", "batch": "64"},
]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: "-".join(plan.values()))
def test_figures_are_those_of_the_command_line(plan: dict[str, str]) -> None:
    at = opened("memory", **plan)
    (printed,) = cli(*shown_command(at))
    shown = metrics(at)
    assert shown["Peak of a GPU"] == binary(printed["peak"])
    assert shown["All terms"] == binary(printed["total"])
    assert shown["Left" if printed["fits"] else "Too much"] == binary(abs(printed["left"]))
    assert shown["GPUs of the plan"] == f"{printed['gpus']:,}"
    assert at.metric[0].help == f"{printed['peak']:,} bytes"
    bars, moments, *_ = charts(at)
    terms = {row["part"]: row["bytes"] for row in rows(bars) if row["bar"] == "all terms"}
    assert terms == {name: printed[name] for name in terms}
    assert sum(terms.values()) == printed["total"]
    live = {}
    for row in rows(moments):
        live[row["moment"]] = live.get(row["moment"], 0) + row["bytes"]
    assert live == {name: each["live"] for name, each in printed["timeline"].items()}


def test_bars_of_gpus_say_which_hold_the_peak() -> None:
    at = opened("memory", model="llama-3-8b")
    (printed,) = cli(*shown_command(at))
    bars = {row["bar"]: row for row in rows(charts(at)[0])}
    assert bars["h100-sxm"]["bytes"] == load_device("h100-sxm").usable
    assert bars["h100-sxm"]["part"] == "does not fit"
    assert bars["b200"]["part"] == "fits"
    assert load_device("h100-sxm").usable < printed["peak"] < load_device("b200").usable


def test_a_knob_redraws_at_once() -> None:
    at = opened("memory", model="llama-3-8b", seq="8192")
    before = metrics(at)["Peak of a GPU"]
    sound(at.selectbox(key="checkpointing").set_value("full").run())
    after = metrics(at)["Peak of a GPU"]
    assert before != after == binary(cli(*shown_command(at))[0]["peak"])


def test_a_plan_that_does_not_divide_the_model_is_one_plain_message() -> None:
    at = opened("memory", model="gpt2", tp="8")
    (shown,) = errors(at)
    assert shown == "This plan cannot be counted: `tp: expected a divisor of n_heads = 12, found 8`"
    sound(at.selectbox(key="tp").set_value(4).run())
    assert errors(at) == []


def test_the_cache_over_the_context() -> None:
    at = opened("memory", model="llama-2-7b", beside="falcon-7b")
    lines = rows(charts(at)[-1])
    for name, label in (("llama-2-7b", "llama-2-7b: as it is"), ("falcon-7b", "falcon-7b")):
        own = {row["context"]: row["bytes"] for row in lines if row["model"] == label}
        for seq in (128, 32768):
            assert own[seq] == cli("kv-cache", name, "--seq", str(seq))[0]["total_bytes"]
    kinds = {row["attention"] for row in lines}
    assert {"MHA", "MQA", "GQA, 8 groups", "MLA, latents of 512 + 64", "window of 4,096"} <= kinds


@pytest.mark.parametrize(
    ("plan", "words"), [({}, "8-bit optimizer"), ({}, "ZeRO-3"), ({"mode": "inference", "tp": "1"}, "")]
)
def test_a_button_applies_what_would_help(plan: dict[str, str], words: str) -> None:
    at = opened("memory", model="llama-3-70b" if plan else "llama-3-8b", **plan)
    button = next(each for each in at.button if words in each.label and "GiB" in each.label)
    promised = button.label.partition(": ")[2].partition(",")[0]
    sound(button.click().run())
    assert metrics(at)["Peak of a GPU"] == promised == binary(cli(*shown_command(at))[0]["peak"])


def test_every_change_has_a_button_or_no_knob() -> None:
    spec = load_model("llama-3-8b")
    run = Run(mode="training", seq=2048, batch=3, execution="sdpa")
    settings = {each.name: remedies.settings_of(each.options) for each in changes(spec, run, 2**36)}
    assert settings["half the micro-batch"] == {"batch": 1}
    assert settings["ZeRO-3"] == {"dp": 8, "zero": 3}
    assert [name for name, found in settings.items() if found is None] == ["loss in pieces"]


def test_what_fits_over_lengths_and_models_is_what_the_command_line_says() -> None:
    at = opened("memory", model="llama-3-8b", checkpointing="full", recipe="bf16")
    lengths, models = (rows(chart) for chart in charts(at) if "capacity" in rows(chart)[0])
    cell = next(row for row in lengths if (row["seq"], row["batch"]) == (4096, 4))
    words = ["--checkpointing", "full", "--recipe", "bf16", "--execution", "sdpa"]
    (printed,) = cli("memory", "llama-3-8b", "--seq", "4096", "--batch", "4", *words, "--gpu", "h100-sxm")
    assert cell["peak"] == printed["peak"]
    assert cell["verdict"] == ("fits" if printed["fits"] else "does not fit")
    cell = next(row for row in models if (row["model"], row["gpu"]) == ("qwen3-32b", "h200"))
    (printed,) = cli("memory", "qwen3-32b", "--seq", "2048", *words, "--gpu", "h200")
    assert (cell["peak"], cell["verdict"]) == (printed["peak"], "fits" if printed["fits"] else "does not fit")


def test_the_most_sequences_that_fit_fit_and_one_more_does_not() -> None:
    at = opened("memory", model="qwen3-32b", mode="inference", tp="2")
    most = int(metrics(at)["Sequences that fit"].replace(",", ""))
    words = ["--mode", "inference", "--tp", "2", "--seq", "2048", "--execution", "sdpa", "--gpu", "h100-sxm"]
    fits = [cli("memory", "qwen3-32b", *words, "--batch", str(n))[0]["fits"] for n in (most, most + 1)] if most else []
    assert fits == [True, False]


def test_short_sequences_are_counted_beyond_thousands_as_the_command_line_counts_them() -> None:
    """By a few batches that are tried, not by all up to a limit."""
    at = opened("memory", model="gpt2", mode="inference", seq="64", gpu="h200")
    words = ["--mode", "inference", "--seq", "64", "--execution", "sdpa", "--gpu", "h200"]
    (printed,) = cli("memory", "gpt2", *words)
    assert metrics(at)["Sequences that fit"] == f"{printed['most']['max_batch']:,}"
    assert printed["most"]["max_batch"] > 4096
