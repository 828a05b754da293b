"""`memory`: its JSON, its verdict, what it advises, and what is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

import calc
from calc.cli import main
from calc.spec.catalogue import device_names, load_device
from calc.spec.run import ExecutionName
from calc.spec.run import Run as Described
from tests import reference
from tests.test_imports import loaded_by

Run = Callable[..., tuple[int, str, str]]
KEYS = ["model", "weights", "gradients", "optimizer", "activations", "logits", "kv_cache", "total", "peak", "fits"]
TERMS = KEYS[1:7]
GPT2 = 124_439_808


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["envelope", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return call


def answer(run: Run, *arguments: str) -> dict[str, Any]:
    status, out, err = run("memory", *arguments, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize("mode", ["training", "inference"])
@pytest.mark.parametrize("spread", [(), ("--tp", "2"), ("--pp", "3", "--stages", "2,8,2")])
def test_keys_and_sums(run: Run, mode: str, spread: tuple[str, ...]) -> None:
    record = answer(run, "gpt2", "--seq", "512", "--mode", mode, *spread)
    assert list(record)[: len(KEYS)] == KEYS
    assert record["total"] == sum(record[name] for name in TERMS)
    assert record["fits"] is record["budget"] is record["left"] is None
    assert record["peak"] == max(moment["live"] for moment in record["timeline"].values())
    assert record["peak"] == record["timeline"][record["peak_at"]]["live"]
    for moment in record["timeline"].values():
        assert moment.pop("live") == sum(moment.values())
    assert record["peak"] == max(rank["peak"] for rank in record["ranks"])
    assert next(rank for rank in record["ranks"] if rank["rank"] == record["rank"])["total"] == record["total"]
    if mode == "training":
        assert record["kv_cache"] == 0
        assert record["optimizer"] == 2 * record["gradients"]
    else:
        assert record["gradients"] == record["optimizer"] == 0
        assert record["kv_cache"] > 0


@pytest.mark.parametrize(
    ("dtype", "weights", "gradients", "moments"), [("fp32", 4, 4, 8), ("bf16-mixed", 4, 4, 8), ("bf16", 2, 2, 4)]
)
def test_dtype_is_the_recipe_in_training(run: Run, dtype: str, weights: int, gradients: int, moments: int) -> None:
    record = answer(run, "gpt2", "--seq", "64", "--dtype", dtype)
    assert (record["weights"], record["gradients"]) == (weights * GPT2, gradients * GPT2)
    assert record["optimizer"] == moments * GPT2
    same = answer(run, "gpt2", "--seq", "64", "--recipe", dtype)
    assert same.pop("advice")
    assert same.items() <= record.items()


def test_dtype_is_of_the_weights_in_inference(run: Run) -> None:
    asked = ("gpt2", "--mode", "inference", "--seq", "64")
    assert answer(run, *asked)["weights"] == 2 * GPT2
    whole = calc.estimate(calc.load_model("gpt2"), "weights", dtype="int4:g128").value
    assert answer(run, *asked, "--dtype", "int4:g128")["weights"] == whole
    cache = json.loads(run("kv-cache", "gpt2", "--seq", "64", "--batch", "3", "--json")[1])
    assert answer(run, *asked, "--batch", "3")["kv_cache"] == cache["total_bytes"]


def test_a_budget_is_met_to_the_byte(run: Run) -> None:
    peak = answer(run, "gpt2", "--seq", "128")["peak"]
    for budget, fits in ((peak, True), (peak - 1, False)):
        record = answer(run, "gpt2", "--seq", "128", "--budget", f"{budget}B")
        assert (record["fits"], record["budget"], record["left"]) == (fits, budget, budget - peak)


def test_a_gpu_that_is_named_is_as_that_of_its_cluster(run: Run) -> None:
    """Of matrices in fp8 it needs a byte of each element less than one whose products need transposed copies."""
    line = ("llama-3-8b", "--stack", "megatron-core", "--dtype", "fp8")
    places = (("--gpu", "b200"), ("--cluster", "dgx-b200"), ("--gpu", "h200"))
    named, of_cluster, other = (answer(run, *line, *place)["peak"] for place in places)
    assert named == of_cluster < other


@pytest.mark.parametrize(("batch", "fits"), [("1", True), ("8", False)])
def test_what_waits_on_the_host_is_to_fit_there_as_predict_says(run: Run, batch: str, fits: bool) -> None:
    line = ("llama-3-8b", "--cluster", "dgx-h100", "--dp", "8", "--zero", "3", "--offload", "activations")
    line += ("--stack", "megatron-core", "--seq", "8192", "--batch", batch)
    record = answer(run, *line)
    assert record["fits"] is fits
    assert (record["host_at_most"] <= record["host_room"]) is fits
    assert record["peak"] <= record["budget"]  # of the GPU, which has room for both
    status, out, _ = run("predict", *line, "--phase", "training", "--json")
    assert (status, json.loads(out)["fits"]) == (0, fits)
    status, out, _ = run("memory", *line)
    assert ("does not fit: up to" in out and "of each GPU on the host" in out) is not fits


def test_a_gpu_is_a_budget(run: Run) -> None:
    usable = load_device("h200").usable
    record = answer(run, "gpt2", "--seq", "128", "--gpu", "H200")
    assert (record["fits"], record["budget"], record["gpu"]) == (True, usable, "h200")
    part = answer(run, "gpt2", "--seq", "128", "--gpu", "h200", "--memory-fraction", "0.9")
    assert part["budget"] == usable * 9 // 10


@pytest.mark.parametrize("name", ["max_batch", "max_context", "max_concurrency"])
def test_the_most_that_fits_fits_and_no_more(run: Run, name: str) -> None:
    asked = ["gpt2", "--mode", "inference", "--budget", "1GiB", "--seq", "700"]
    most = answer(run, *asked)["most"][name]
    option = "--seq" if name == "max_context" else "--batch"
    one = ("--batched-tokens", "700") if name == "max_concurrency" else ()
    for n, fits in ((most, True), (most + 1, False)):
        status, out, _ = run("memory", *asked, option, str(n), *one, "--json")
        assert (status, json.loads(out)["fits"]) == (0, fits)


@pytest.mark.parametrize(
    "asked",
    [
        ("llama-3-8b", "--seq", "4096", "--batch", "2", "--budget", "80GiB"),
        ("llama-3-8b", "--seq", "4096", "--execution", "eager", "--dp", "16", "--zero", "1"),
        ("llama-2-7b", "--mode", "inference", "--seq", "4096", "--batch", "8", "--budget", "40GiB"),
    ],
)
def test_advice_is_what_the_options_lead_to(run: Run, asked: tuple[str, ...]) -> None:
    before = answer(run, *asked)
    assert len(before["advice"]) > 3
    assert [change["saved"] for change in before["advice"]] == sorted(
        (change["saved"] for change in before["advice"]), reverse=True
    )
    for change in before["advice"]:
        after = answer(run, *asked, *change["options"].split())
        assert after["peak"] == change["peak"] == before["peak"] - change["saved"] < before["peak"]
        assert (after["gpus"], after["fits"]) == (change["gpus"], change["fits"])


def test_advice_costs_what_flops_says(run: Run) -> None:
    changes = {change["options"]: change for change in answer(run, "gpt2-xl", "--seq", "1024")["advice"]}
    flops = {}
    for checkpointing in ("none", "full"):
        flops[checkpointing] = calc.estimate(
            calc.load_model("gpt2-xl"), "flops.training", seq=1024, checkpointing=checkpointing
        ).value
    assert changes["--checkpointing full"]["flops"] == pytest.approx(flops["full"] / flops["none"] - 1)
    assert changes["--optimizer adamw-8bit"]["flops"] == 0


def test_what_does_not_divide_is_not_advised(run: Run) -> None:
    """GPT-2's 12 heads go on 4 ranks, not on 8."""
    options = [change["options"] for change in answer(run, "gpt2", "--seq", "512", "--tp", "4")["advice"]]
    assert "--checkpointing full" in options
    assert not any("--tp" in option for option in options)


@pytest.mark.parametrize(
    ("plan", "every"),
    [
        (("llama-3-8b", "--seq", "8192", "--batch", "2", "--zero", "3", "--stack", "fsdp2"), 1),
        (("llama-3-8b", "--seq", "4096", "--batch", "2", "--zero", "1", "--stack", "megatron-core"), 2),
        (("qwen3-30b-a3b", "--seq", "1024", "--ep", "8", "--zero", "1", "--stack", "megatron-core"), None),
    ],
)
def test_the_least_checkpointing_that_fits_is_what_predict_takes(
    run: Run, plan: tuple[str, ...], every: int | None
) -> None:
    words = (*plan, "--dp", "8", "--gpu", "h100-sxm")
    found = answer(run, *words)
    taken = json.loads(run("predict", *words, "--phase", "training", "--json")[1])["plan"]
    _, shown, _ = run("memory", *words)
    if every is None:
        assert (found["fits"], found["least_checkpointing"], taken["checkpointing"]) == (True, None, "none")
        assert "assumed: " not in shown
        return
    assert found["fits"] is False
    assert found["least_checkpointing"] == {"checkpointing": "full", "checkpoint_every": every}
    assert found["least_checkpointing"].items() <= taken.items()
    options = ("--checkpointing", "full", *(("--checkpoint-every", str(every)) if every > 1 else ()))
    assert f"assumed: no checkpointing; {' '.join(options)} fits\n" in shown
    assert answer(run, *words, *options)["fits"] is True
    assert answer(run, *words, "--checkpointing", "none")["least_checkpointing"] is None


def test_it_is_said_where_no_checkpointing_is_enough(run: Run) -> None:
    _, shown, _ = run("memory", "llama-3-70b", "--seq", "2048", "--gpu", "h100-sxm")
    assert "assumed: no checkpointing; no --checkpointing full is known to fit\n" in shown
    for words in (
        ("--gpu", "b200"),
        ("--mode", "inference", "--gpu", "l4"),
        ("--gpu", "l4", "--offload", "activations"),
    ):
        _, shown, _ = run("memory", "llama-3-8b", "--seq", "512", *words)
        assert "assumed: " not in shown


def test_the_verdict_in_plain_words(run: Run) -> None:
    _, out, _ = run("memory", "llama-3-8b", "--seq", "8192", "--gpu", "a100-pcie-40gb")
    assert out.startswith("llama-3-8b: does not fit in a100-pcie-40gb (40.0 GiB): ")
    assert " GiB too much; the largest term is activations, " in out.splitlines()[0]
    assert "--checkpointing full" in out
    assert out.count("← peak") == 1
    _, out, _ = run("memory", "gpt2", "--seq", "512", "--budget", "80GiB")
    assert out.startswith("gpt2: fits in 80.0 GiB: ")
    assert " left before the 0.5 to 1 GiB of CUDA's context; " in out.splitlines()[0]


def test_ranks_of_a_pipeline(run: Run) -> None:
    _, out, _ = run("memory", "gpt2", "--seq", "512", "--pp", "4", "--micro-batches", "8")
    lines = [line.split()[0] for line in out.splitlines() if line]
    assert {"rank", "first", "stage", "last"} <= set(lines)
    assert "the highest of 2 between first and last" in out


REFUSED = [
    (("--batch", "0"), "--batch: expected a whole number from 1"),
    (("--budget", "-5GiB"), "--budget: expected a number of bytes"),
    (("--budget", "0"), "--budget: expected a number of bytes with its unit"),
    (("--budget", "0GiB"), "--budget: expected"),
    (("--gpu", "h1000"), "GPU: expected a device of the catalogue"),
    (("--gpu", "h100"), "GPU: expected one of h100-nvl, h100-pcie, h100-sxm"),
    (("--gpu", "h200", "--budget", "80GiB"), "--budget: expected --gpu or --budget, found both"),
    (("--gpu", "h200", "--memory-fraction", "90"), "--memory-fraction: expected a share above 0 and up to 1"),
    (("--gpu", "h200", "--memory-fraction", "%"), "--memory-fraction: expected a share above 0 and up to 1"),
    (("--batch", "-3"), "--batch: expected a whole number from 1 to 2^40, found -3"),
    (("--gpu", "h200", "--memory-fraction", "1.1"), "--memory-fraction: expected a share above 0 and up to 1"),
    (("--tp", "5"), "tp: expected a divisor"),
    (("--pp", "13"), "pp: expected at most"),
    (("--pp", "2", "--stages", "6,7"), "stages: expected"),
    (("--pp", "2", "--stages", "6,x"), "--stages: expected whole numbers"),
    (("--zero", "4"), "zero: expected 0, 1, 2 or 3"),
    (("--ep", "2"), "ep: expected 1"),
    (("--recipe", "fp7"), "'fp7' is not one of"),
    (("--optimizer", "adam-7bit"), "'adam-7bit' is not one of"),
    (("--recompute", "attention,nothing"), "recompute: expected one of"),
    (("--dropout", "1"), "dropout: expected a probability"),
    (("--dp", "two"), "--dp: expected a whole number, found two"),
    (("--memory-fraction", "0"), "--memory-fraction: expected a share above 0 and up to 1"),
    (("--frozen-dtype", "nf4:g64"), "frozen dtype: expected none without an adapter"),
    (
        ("--frozen-dtype", "nf4"),
        "frozen dtype: expected one of fp32, bf16, fp16, fp8, int8, fp4, int4, or of int8, int4",
    ),
    (("--loss-chunks", "513"), "loss_chunks: expected at most the 512 tokens of a step"),
    (("--execution", "megatron", "--recipe", "fp8"), "recipe: expected inputs of matrices in 16 bits"),
    (("--dropout", "nan"), "--dropout: expected a finite number, found nan"),
    (("--dtype", "fp16"), "--dtype: expected in training a recipe"),
    (("--dtype", "int4:g128"), "--dtype: expected in training a recipe"),
    (("--dtype", "bf16", "--recipe", "bf16"), "--dtype: expected --dtype or --recipe"),
    (("--mode", "inference", "--dtype", "bf16-mixed"), "dtype: expected one of fp32"),
    (("--mode", "inference", "--engine", "nothing"), "'nothing' is not 'vllm'"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=[" ".join(options) for options, _ in REFUSED])
def test_refusals(run: Run, options: tuple[str, ...], message: str) -> None:
    status, out, err = run("memory", "gpt2", "--seq", "512", *options)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_options_that_change_nothing_are_named(run: Run) -> None:
    _, _, err = run("memory", "gpt2", "--seq", "64", "--engine", "vllm")
    assert err == "note: --engine changes nothing in training\n"
    _, _, err = run("memory", "gpt2", "--seq", "64", "--mode", "inference", "--zero", "3")
    assert err == "note: --zero changes nothing in inference\n"
    _, _, err = run("memory", "gpt2", "--seq", "64", "--memory-fraction", "0.9")
    assert err == "note: --memory-fraction changes nothing without --gpu or --budget\n"
    _, _, err = run("memory", "gpt2", "--seq", "64", "--checkpointing", "selective", "--checkpoint-every", "4")
    assert err == "note: --checkpoint-every changes nothing without --checkpointing full or selective-op\n"
    _, _, err = run("memory", "gpt2", "--seq", "64", "--zero", "3")
    assert err == "note: --zero 3 divides nothing among one data-parallel rank; add --dp\n"
    _, _, err = run("memory", "gpt2", "--seq", "64", "--zero", "2", "--dp", "2", "--pp", "2")
    assert err == "note: in a pipeline --zero 2 and 3 divide gradients only after the last micro-batch\n"
    _, _, err = run("memory", "gpt2", "--seq", "64", "--source-seq", "5", "--latent-reading", "absorbed")
    assert "--latent-reading changes nothing in training" in err
    assert "gpt2: --source-seq (--frames) changes nothing for a model without an encoder" in err
    _, _, err = run("explain", "gpt2", "params", "--tp", "2")
    assert err == "note: --tp changes nothing in params\n"


def test_explain_names_the_moment_and_what_would_change_it(run: Run) -> None:
    status, out, _ = run("explain", "gpt2", "memory.peak", "--seq", "512", "--dp", "8", "--zero", "2")
    spec, plan = calc.load_model("gpt2"), Described(dp=8, zero=2)
    assert status == 0
    assert f"value    {calc.estimate(spec, 'memory.peak', seq=512, run=plan).value:,} bytes" in out
    assert out.count("← peak") == 1
    assert "--checkpointing full" in out


def test_explain_total_of_several_ranks(run: Run) -> None:
    """That of the rank with the highest peak, as `memory` has it."""
    status, out, _ = run("explain", "gpt2", "memory.total", "--seq", "64", "--pp", "2", "--json")
    value = calc.estimate(calc.load_model("gpt2"), "memory.total", seq=64, pp=2).value
    found = json.loads(out)
    assert (status, found["value"], sum(each["value"] for each in found["terms"].values())) == (0, value, value)
    assert value == answer(run, "gpt2", "--seq", "64", "--pp", "2")["total"]


@pytest.mark.parametrize("name", ["transformer-base", "whisper-medium"])
def test_an_encoder_decoder_is_served(run: Run, name: str) -> None:
    model = name if name in calc.preset_names() else str(reference.folder() / "truth/configs" / f"{name}.json")
    status, out, _ = run("memory", model, "--mode", "inference", "--seq", "64", "--budget", "8GiB")
    assert status == 0
    assert "allocated by vllm  unknown" in out
    record = json.loads(run("memory", model, "--mode", "inference", "--seq", "64", "--json")[1])
    assert record["kv_caches"] == {"theory": record["kv_cache"], "vllm": None}


def test_solve_takes_a_plan_and_a_device(run: Run) -> None:
    asked = ("--for", "batch", "--seq", "512", "--checkpointing", "full", "--json")
    status, out, _ = run("solve", "gpt2", "memory.peak<=l4", *asked)
    found = json.loads(out)
    assert (status, found["target"]) == (0, load_device("l4").usable)
    batch = found["candidates"][0]["sizes"]["batch"]
    for n, fits in ((batch, True), (batch + 1, False)):
        options = ("--seq", "512", "--checkpointing", "full", "--batch", str(n), "--gpu", "l4")
        assert answer(run, "gpt2", *options)["fits"] is fits


def test_the_report_names_the_devices_that_hold_it(run: Run) -> None:
    record = json.loads(run("report", "llama-3-8b", "--json")[1])
    spec = calc.load_model("llama-3-8b")
    for mode, held in record["memory"].items():
        assert held["peak"] == calc.estimate(spec, "memory.peak", mode=mode).value
        for name in device_names():
            device = load_device(name)
            gpu = device.vendor in ("NVIDIA", "AMD") and not device.shared and "bf16" in device.known_peaks
            assert (name in held["devices"]) == (gpu and device.usable >= held["peak"] + 2**29)
    assert list(record["memory"]) == ["training", "inference"]
    assert "Training fits one h200" in run("report", "llama-3-8b")[1]


def test_what_others_ask_does_not_load_it() -> None:
    """`params` is the fastest question, and pays for nothing that it does not use."""
    loaded = loaded_by("import calc.cli; calc.cli.cli.main(['params', 'gpt2', '--json'], standalone_mode=False)")
    assert "calc.quantities.parameters" in loaded
    assert not any(
        name.startswith(("calc.memory", "calc.quantities.saved_tensors", "calc.spec.catalogue")) for name in loaded
    )


def test_zero_divides_nothing_among_one_rank(run: Run) -> None:
    peaks = {calc.estimate(calc.load_model("gpt2"), "memory.peak", zero=zero).value for zero in range(4)}
    assert len(peaks) == 1


def test_a_frozen_base_is_advised_to_be_quantized(run: Run) -> None:
    asked = ("llama-3-8b", "--lora-rank", "16", "--gpu", "rtx-4090")
    advised = {change["options"]: change["peak"] for change in answer(run, *asked)["advice"]}
    assert answer(run, *asked, "--frozen-dtype", "nf4:g64")["peak"] == advised["--frozen-dtype nf4:g64"]


def test_advice_names_the_option_that_was_given(run: Run) -> None:
    advised = [change["options"] for change in answer(run, "gpt2", "--seq", "64", "--dtype", "fp32")["advice"]]
    assert "--dtype bf16" in advised
    assert not any("--recipe" in options for options in advised)


def test_under_full_checkpointing_layers_keep_their_inputs(run: Run) -> None:
    """And those between, which are not checkpointed, all that they keep."""
    asked = ("gpt2", "--seq", "64", "--checkpointing", "full")
    (kept,) = answer(run, *asked)["layer"]
    assert (kept["op"], kept["layers"], kept["bytes"]) == ("layers.checkpoint", 12, 64 * 768 * 4)
    some = answer(run, *asked, "--checkpoint-every", "5")["layer"]
    assert {(each["layers"], each["op"] == "layers.checkpoint") for each in some} == {(3, True), (9, False)}


@pytest.mark.parametrize("execution", ["eager", "sdpa", "compiled"])
def test_a_layer_is_listed_to_the_byte(run: Run, execution: ExecutionName) -> None:
    """One more layer keeps what the list of one layer adds up to."""
    asked = ("--seq", "256", "--execution", execution)
    record = answer(run, "gpt2", *asked)
    assert {keeper["layers"] for keeper in record["layer"]} == {12}
    own = sum(keeper["bytes"] for keeper in record["layer"])
    deep = calc.load_model("gpt2").model_copy(update={"layers": _with_layers(13)})
    more = calc.estimate(deep, "memory.total", seq=256, execution=execution).terms["activations"]
    assert more - record["activations"] == own


def _with_layers(n: int) -> tuple[Any, ...]:
    (group,) = calc.load_model("gpt2").layers
    return (group.model_copy(update={"count": n}),)


def test_what_was_assumed_is_said(run: Run) -> None:
    asked = ("memory", "gpt2", "--mode", "inference", "--dtype", "int8", "--seq", "700", "--budget", "2GiB")
    out = run(*asked)[1]
    assert "weights in int8, cache in bf16, sdpa, prompts in one pass, 1 GPU" in out
    assert "max_context is past the 1,024 tokens that gpt2 is made for" in out
    out = run(*asked[:-1], "256MiB", "--engine", "vllm", "--cache-dtype", "fp8")[1]
    assert "cache in fp8, compiled, 8,192 tokens a pass" in out


def test_what_stands_on_the_host(run: Run) -> None:
    """16 bytes a parameter, 8 of them in blocks that may be rounded up to twice as much."""
    asked = ["gpt2", "--stack", "megatron-core", "--recipe", "bf16-master", "--offload"]
    record = answer(run, *asked, "optimizer")
    assert (record["optimizer"], record["host"], record["host_at_most"]) == (0, 16 * GPT2, 24 * GPT2)
    assert (record["run"]["offload"], record["plan"]["stack"]) == ("optimizer", "megatron-core")
    timed = ["--phase", "training", "--cluster", "dgx-h100", "--checkpointing", "none", "--seq", "64", "--json"]
    for place in ("optimizer", "activations", "none"):
        held = answer(run, *asked, place, "--cluster", "dgx-h100", "--checkpointing", "none", "--seq", "64")
        told = json.loads(run("predict", *asked, place, *timed)[1])["memory"]
        for name in ("host", "host_at_most", "host_room"):
            assert told[name] == held[name]
        assert (told["host"] < told["host_at_most"]) is (place != "none")
    _, shown, _ = run("memory", *asked, "optimizer", "--offload-fraction", "0.5")
    assert "on the host, at most" in shown
    assert "optimizer on the host, 0.5 of it" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--offload-fraction", "0.5"], "--offload-fraction changes nothing without --offload optimizer"),
        (["--offload-layers", "3"], "--offload-layers changes nothing without --offload activations"),
        (["--offload-layers", "3", "--offload", "optimizer"], "--offload-layers changes nothing without --offload act"),
        (["--checkpoint-every", "2"], "--checkpoint-every changes nothing without --checkpointing full or selective"),
    ],
)
def test_words_without_what_they_are_of_are_named(run: Run, words: list[str], said: str) -> None:
    """By `memory` and `predict` alike, whose answers are those without them."""
    asked = ["gpt2", "--stack", "megatron-core", "--cluster", "dgx-h100", "--checkpointing", "none", "--seq", "64"]
    for command in (["memory"], ["predict", "--phase", "training"]):
        plain = json.loads(run(*command, *asked, *words[2:], "--json")[1])
        status, out, err = run(*command, *asked, *words, "--json")
        assert (status, err.startswith(f"note: {said}"), len(err.splitlines())) == (0, True, 1)
        found = json.loads(out)
        for name in ("peak", "seconds"):
            assert found.get(name) == plain.get(name)
        assert "offload_layers" not in found["run"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--recipe fp8 --fp8-recipe mxfp8", "in fp8 with mxfp8 scales"),
        ("--recipe fp8 --fp8-recipe tensorwise --gradient-dtype bf16", "in fp8 with tensorwise scales"),
        ("--recipe fp8", ""),
        ("--recipe fp8 --fp8-param-gather", "beside --fp8-param-gather with gradients in fp32"),
        ("--recipe fp8 --fp8-param-gather --gradient-dtype bf16", ""),
        ("--recipe bf16-master", ""),
        ("--recipe bf16-zero --zero 3", "with --zero 3"),
        ("--recipe bf16-zero --optimizer adamw-bf16", "beside --optimizer adamw-bf16, which asks for it by itself"),
        ("--recipe bf16-zero --offload optimizer", "beside --offload optimizer, which asks for it by itself"),
    ],
)
def test_a_precision_aware_optimizer_that_changes_nothing_is_named(run: Run, words: str, why: str) -> None:
    """Where it does, memory or time is another."""
    asked = ["gpt2", "--stack", "megatron-core", "--seq", "64", "--dp", "8", "--zero", "1", "--cluster", "dgx-b200"]
    if "offload" in words:  # of whose machines it is known what their processors do
        asked[-1] = "dgx-h100"
    asked += [*words.split(), "--json"]
    for command in (["memory"], ["predict", "--phase", "training", "--checkpointing", "none"]):
        _, out, _ = run(*command, *asked)
        _, same, err = run(*command, *asked, "--precision-aware")
        plain, aware = ({name: json.loads(text).get(name) for name in NUMBERS} for text in (out, same))
        assert (plain == aware) is bool(why)
        assert [f"note: --precision-aware changes nothing {why}" in err, err != ""] == [bool(why)] * 2


NUMBERS = ("optimizer", "timeline", "seconds")


@pytest.mark.parametrize("stack", ["megatron-core", "fsdp2", "deepspeed"])
def test_memory_takes_what_a_stack_has_for_a_recipe_as_predict_does(run: Run, stack: str) -> None:
    """Nothing is said of formats; each holds its weights in a way of its own."""
    asked = ("gpt2", "--stack", stack, "--dp", "2", "--zero", "1", "--seq", "64", "--json")
    held = json.loads(run("memory", *asked)[1])
    timed = json.loads(run("predict", *asked, "--gpu", "h100-sxm", "--phase", "training")[1])
    assert held["plan"]["recipe"] == timed["dtype"] != "bf16-mixed"
    assert held["peak"] == timed["memory"]["peak"]


def test_gradients_held_twice_are_said_of_pytorch_s_ddp_alone(run: Run) -> None:
    """Megatron-Core's products add to the buffers that are summed."""
    said = "PyTorch's DDP holds gradients twice"
    asked = ("gpt2", "--dp", "2")
    assert said in run("memory", *asked)[2]
    assert said not in run("memory", *asked, "--stack", "megatron-core")[2]
