"""`serve`: what scripts may rely on, exit codes, refusals."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calc.architectures.models import load_model
from calc.cli import main
from calc.serve.constants import interval_of
from calc.serve.layout import layout_of
from calc.serve.running import Piece
from calc.serve.service import service_of

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["envelope", "serve", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return call


CLOSED = ("--input", "512", "--output", "128", "--concurrency", "8")


def test_what_scripts_may_rely_on(run: Run) -> None:
    code, out, err = run("llama-3-8b", "--gpu", "h100-sxm", "--gpus", "2", "--tp", "1", *CLOSED, "--json")
    record = json.loads(out)
    assert (code, err) == (0, "")
    for name in ("ttft", "tpot", "e2e"):
        spread = record[name]
        assert set(spread) == {"mean", "p50", "p90", "p99"}
        assert 0 < spread["p50"] <= spread["p90"] <= spread["p99"]
    speed = record["throughput"]
    assert speed["output_per_gpu"] == pytest.approx(speed["output"] / 2)
    assert speed["total"] == pytest.approx(speed["output"] * 5, rel=0.05)
    assert record["fits"] is True
    assert record["saturated"] is False
    assert record["concurrency"] == pytest.approx(8, rel=0.1)
    for name, predicted in (
        ("ttft", record["ttft"]["mean"]),
        ("tpot", record["tpot"]["mean"]),
        ("throughput", speed["output"]),
    ):
        interval = record["interval"][name]
        assert interval["level"] == 0.9
        assert interval["low"] < predicted < interval["high"]
    assert record["run"]["engine"] == "vllm"
    assert record["run"]["replicas"] == 2
    assert sum(record["time"].values()) == pytest.approx(1)


def test_what_does_not_fit_exits_with_1(run: Run) -> None:
    code, out, _ = run("llama-3-70b", "--gpu", "h100-sxm", *CLOSED, "--json")
    assert code == 1
    record = json.loads(out)
    assert record["fits"] is False
    assert record["ttft"] is None


def test_a_checkpoint_in_another_format_is_noted(run: Run) -> None:
    words = ("--gpu", "h100-sxm", *CLOSED)
    said = "note: gpt-oss-20b: its checkpoint is in mxfp4, and not in bf16 as asked: it is --dtype mxfp4 here\n"
    assert run("gpt-oss-20b", *words)[2] == said
    assert run("gpt-oss-20b", *words, "--dtype", "mxfp4")[2] == ""
    assert said.replace("gpt-oss-20b", "deepseek-v3").replace("mxfp4", "fp8") == run("deepseek-v3", *words)[2]


def test_a_rate_beyond_capacity_is_refused_with_it(run: Run) -> None:
    code, out, err = run("llama-3-8b", "--gpu", "l4", "--input", "4000", "--output", "500", "--rate", "50")
    assert (code, out) == (2, "")
    assert err.startswith("error: --rate: expected fewer than the ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(("rate", "noted"), [("0.45", False), ("0.56", True)])
def test_a_rate_from_which_a_server_does_not_recover_is_noted(run: Run, rate: str, noted: bool) -> None:
    words = ("--gpu", "l4", "--dtype", "fp8", "--input", "1000", "--output", "1000", "--requests", "50")
    code, _, err = run("llama-3.1-8b", *words, "--rate", rate)
    assert code == 0
    assert ("once a burst has filled the cache 0.5" in err) is noted


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--gpu", "h100-sxm"), "load"),
        (("--gpu", "h100-sxm", "--rate", "1", "--concurrency", "2"), "load"),
        (("--gpu", "h100-sxm", "--rate", "1", "--input", "5"), "--output"),
        (("--gpu", "nonsense", *CLOSED), "GPU"),
        (("--gpu", "h100-sxm", *CLOSED, "--dtype", "fp7"), "--dtype"),
        (("--gpu", "h100-sxm", *CLOSED, "--cache-dtype", "fp7"), "--cache-dtype"),
        (("--gpu", "h100-sxm", *CLOSED, "--engine", "nonsense"), "--engine"),
        (("--gpu", "h100-sxm", *CLOSED, "--tp", "3"), "--tp"),
        (("--gpu", "h100-sxm", *CLOSED, "--price", "cheap"), "--price"),
        (("--gpu", "h100-sxm", *CLOSED, "--prefill-gpus", "1"), "--prefill-gpus"),
        (("--gpu", "h100-sxm", "--trace", "none.csv"), "--trace"),
        (("--gpu", "h100-sxm", "--rate", "nan", "--input", "5", "--output", "5"), "--rate"),
    ],
)
def test_bad_words(run: Run, words: tuple[str, ...], said: str) -> None:
    code, out, err = run("llama-3-8b", *words)
    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.parametrize(("gpu", "engine"), [("mi300x", "trtllm"), ("m4-max", "sglang"), ("strix-halo", "sglang")])
def test_an_engine_that_does_not_run_on_a_device_is_refused_with_those_that_do(run: Run, gpu: str, engine: str) -> None:
    code, out, err = run("qwen3-0.6b", "--gpu", gpu, "--engine", engine, *CLOSED)
    assert (code, out) == (2, "")
    told = re.fullmatch(rf"error: --engine: expected one that runs on {gpu}: (.+), found {engine}\n", err)
    assert told is not None
    other = told[1].split(", ")[0]
    assert run("qwen3-0.6b", "--gpu", gpu, "--engine", other, *CLOSED)[0] == 0
    code, _, err = run("qwen3-0.6b", "--gpu", "t4", "--engine", "trtllm", *CLOSED)
    assert (code, err) == (2, "error: --gpu: expected a device that trtllm runs on, found t4\n")


@pytest.mark.parametrize("load", [("--concurrency", "1"), ("--rate", "0.001")])
def test_sequences_beyond_what_attention_is_known_of_are_refused(run: Run, load: tuple[str, str]) -> None:
    """Of two million tokens, prompt and answer together, and not of what one of them has."""
    words = ("--gpu", "h200", "--input", "2097000", "--spread", "0", *load)
    code, out, err = run("qwen3-0.6b", *words, "--output", "153")
    assert (code, out) == (2, "")
    assert err == "error: sequence: expected at most 2,097,152 tokens of prompt and answer, found 2,097,153\n"


def test_a_model_that_generates_nothing_reads_prompts_alone(run: Run) -> None:
    words = ("--gpu", "h100-sxm", "--input", "512", "--concurrency", "16", "--json")
    code, out, _ = run("bert-base", *words, "--output", "1")
    record = json.loads(out)
    assert code == 0
    assert record["tpot"]["mean"] is None
    assert set(record["interval"]) == {"ttft", "throughput"}
    assert record["e2e"]["mean"] == pytest.approx(record["ttft"]["mean"])
    code, _, err = run("bert-base", *words, "--output", "2")
    assert code == 2
    assert "generates no tokens" in err


def test_no_interval_is_faster_than_memory_reads_the_weights(run: Run) -> None:
    words = ("--gpu", "h100-sxm", "--dtype", "fp8", "--input", "16", "--output", "32", "--concurrency", "1", "--json")
    record = json.loads(run("llama-3-70b", *words)[1])
    least = (70_553_706_496 - 128_256 * 8192 - 50 * 2**20) / 3.35e12
    assert least < record["interval"]["tpot"]["low"] < record["tpot"]["mean"] < record["interval"]["tpot"]["high"]
    assert record["throughput"]["output"] < record["interval"]["throughput"]["high"] < 1 / least


def test_what_does_not_fit_says_how_much_it_is_and_what_helps(run: Run) -> None:
    code, out, _ = run("llama-3-70b", "--gpu", "h100-sxm", "--input", "16", "--output", "32", "--concurrency", "1")
    assert code == 1
    assert "weights take 131 GiB" in out
    assert "--tp" in out


@pytest.mark.parametrize("gpus", ["3", "6"])
def test_gpus_that_no_sequence_can_be_shared_by_are_refused_by_their_own_name(run: Run, gpus: str) -> None:
    code, _, err = run("llama-3-8b", "--gpu", "h200", "--gpus", gpus, *CLOSED)
    said = f"expected a divisor of n_heads = 32 as --tp, which is all of them, or --tp beside it, found {gpus}"
    assert (code, err) == (2, f"error: --gpus: {said}\n")
    assert run("llama-3-8b", "--gpu", "h200", "--gpus", gpus, "--tp", "1", *CLOSED)[0] == 0


def test_a_model_that_keeps_nothing_of_a_token_has_no_cache(run: Run) -> None:
    words = ("bert-base", "--gpu", "h200", "--input", "200", "--output", "1", "--rate", "1", "--requests", "20")
    line = " ".join(run(*words)[1].split())
    assert "cache none: nothing is kept of a token rests on" in line
    most = json.loads(run(*words, "--json")[1])["capacity"]
    assert most > 1000
    assert f"of at most {most:,.0f}/s" in line


def test_heads_of_keys_that_an_engine_cannot_divide_are_refused(run: Run) -> None:
    """phi-4 has 40 heads and 10 of keys."""
    code, _, err = run("phi-4", "--gpu", "h100-sxm", "--tp", "4", *CLOSED)
    assert code == 2
    assert "--tp: expected a divisor or a multiple of n_kv_heads = 10, found 4" in err


def test_prompts_apart(run: Run) -> None:
    apart = ("--prefill-gpus", "2", "--prefill-tp", "2", "--decode-gpus", "4", "--decode-tp", "4")
    code, out, _ = run("llama-3-70b", "--gpu", "h200", "--dtype", "fp8", *apart, *CLOSED, "--json")
    record = json.loads(out)
    assert code == 0
    assert record["run"]["gpus"] == 6
    assert (record["run"]["prefill"]["tp"], record["run"]["decode"]["tp"]) == (2, 4)


def test_servers_apart_say_how_each_is_laid_out(run: Run) -> None:
    apart = ("--prefill-gpus", "2", "--decode-gpus", "4", "--decode-tp", "2")
    _, out, _ = run("llama-3-8b", "--gpu", "h200", *apart, *CLOSED)
    laid = "pp 1, attention_dp 1, ep 1, replicas 2;"
    line = " ".join(out.split())
    assert f"run: prefill gpus 2, tp 1, {laid} decode gpus 4, tp 2, {laid}" in line
    assert line.endswith("; replicas = gpus / (tp * pp * attention_dp)")
    _, out, _ = run("llama-3-8b", "--gpu", "h200", *apart, *CLOSED, "--json")
    assert "tp" not in json.loads(out)["run"]


@pytest.mark.parametrize(
    ("model", "plan", "replicas"),
    [
        ("llama-3-8b", ("--gpus", "4", "--tp", "2"), 2),
        ("llama-3-8b", ("--gpus", "8", "--tp", "2", "--pp", "2"), 2),
        ("llama-3-8b", ("--gpus", "2"), 1),
        ("gpt-oss-20b", ("--gpus", "12", "--tp", "1", "--attention-dp", "4", "--ep", "4"), 3),
    ],
)
def test_the_line_says_how_many_replicas_there_are_and_why(
    run: Run, model: str, plan: tuple[str, ...], replicas: int
) -> None:
    words = (model, "--gpu", "h200", *plan, *CLOSED, "--requests", "12")
    laid = json.loads(run(*words, "--json")[1])["run"]
    assert laid["replicas"] == replicas == laid["gpus"] / (laid["tp"] * laid["pp"] * laid["attention_dp"])
    line = " ".join(run(*words)[1].split()).rpartition("run: ")[2]
    assert line.startswith(f"gpus {plan[1]}, tp {laid['tp']}, ")
    assert f"replicas {replicas}, " in line
    assert line.endswith("; replicas = gpus / (tp * pp * attention_dp)") == (replicas > 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--decode-gpus", "3", "--decode-tp", "2"), "--decode-gpus: expected a multiple of tp * pp"),
        (("--decode-gpus", "2", "--prefill-tp", "3"), "--prefill-gpus: expected a multiple of tp * pp"),
        (("--decode-gpus", "6", "--decode-tp", "6"), "--decode-tp: expected a divisor of n_heads = 32, found 6"),
        (("--decode-gpus", "2", "--decode-ep", "2"), "--decode-ep: expected 1 for a model without experts, found 2"),
        (("--decode-gpus", "4", "--tp", "4"), "--tp: expected 1 beside --prefill-gpus and --decode-gpus, found 4"),
    ],
)
def test_a_refusal_of_servers_apart_names_the_option_that_was_said(run: Run, words: tuple[str, ...], said: str) -> None:
    code, _, err = run("llama-3-8b", "--gpu", "h200", "--prefill-gpus", "2", *words, *CLOSED)
    assert code == 2
    assert err.startswith(f"error: {said}")


def test_how_servers_apart_are_laid_out_is_refused_where_there_are_none(run: Run) -> None:
    code, _, err = run("llama-3-8b", "--gpu", "h200", "--decode-tp", "2", *CLOSED)
    assert (code, err) == (2, "error: --decode-tp: expected 1 without --prefill-gpus and --decode-gpus, found 2\n")


def test_no_more_is_answered_than_is_asked_for(run: Run) -> None:
    """At a rate that is a tenth of capacity, a faster server answers no more in a second, and a slower one as much."""
    words = ("--gpu", "h100-sxm", "--input", "512", "--output", "128", "--rate", "2", "--spread", "0", "--json")
    record = json.loads(run("llama-3-8b", *words)[1])
    interval, found = record["interval"]["throughput"], record["throughput"]["output"]
    assert record["capacity"] > 20
    assert interval["low"] == pytest.approx(found, rel=0.02)
    assert found <= interval["high"] == pytest.approx(found, rel=0.02)


def test_a_slower_server_answers_what_it_can(run: Run) -> None:
    """At nine tenths of capacity, one of two thirds of its speed answers two thirds of that."""
    words = ("--gpu", "h100-sxm", "--input", "512", "--output", "128", "--json")
    most = json.loads(run("llama-3-8b", *words, "--rate", "2")[1])["capacity"]
    record = json.loads(run("llama-3-8b", *words, "--rate", f"{0.9 * most}")[1])
    interval, found = record["interval"]["throughput"], record["throughput"]["output"]
    assert interval["low"] == pytest.approx(interval_of("throughput", "vllm")[1] * most * 128, rel=0.02)
    assert found < interval["high"] < 1.02 * 0.9 * most * 128


@pytest.mark.parametrize("apart", [(), ("--prefill-gpus", "1", "--decode-gpus", "1")])
def test_long_simulations_say_how_far_they_are(
    run: Run, monkeypatch: pytest.MonkeyPatch, apart: tuple[str, ...]
) -> None:
    monkeypatch.setattr("calc.output.progress._PATIENCE", 0.0)
    code, _, err = run("llama-3-8b", "--gpu", "h100-sxm", *apart, *CLOSED)
    assert code == 0
    lines = err.splitlines()
    assert lines[-1] == "requests answered: 80 of 80"
    assert 10 < len(set(lines)) <= 81
    assert all(line.endswith(" of 80") for line in lines)


def test_a_trace_and_a_price(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text("sent,input,output\n" + "".join(f"{i / 4},{100 + i},20\n" for i in range(40)))
    code, out, _ = run("llama-3-8b", "--gpu", "h100-sxm", "--trace", str(file), "--price", "3/h", "--json")
    record = json.loads(out)
    assert code == 0
    assert record["requests"] == {"answered": 40, "refused": 0, "preemptions": 0}
    cost = record["cost"]
    speed = record["throughput"]
    total = (
        cost["per_million_input"] * (speed["total"] - speed["output"]) + cost["per_million_output"] * speed["output"]
    ) / 1e6
    assert total * 3600 == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--input", "5"), "--input: expected none beside --trace, in which it changes nothing, found 5"),
        (("--output", "5"), "--output: expected none beside --trace, in which it changes nothing, found 5"),
        (("--spread", "0.1"), "--spread: expected none beside --trace, in which it changes nothing, found 0.1"),
        (("--seed", "0"), "--seed: expected none beside --trace, in which it changes nothing, found 0"),
        (("--burstiness", "1"), "--burstiness: expected none beside --trace, in which it changes nothing, found 1.0"),
    ],
)
def test_what_changes_nothing_beside_a_trace_is_refused(
    run: Run, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    file = tmp_path / "own.csv"
    file.write_text("sent,input,output\n0,100,20\n")
    code, out, err = run("llama-3-8b", "--gpu", "h100-sxm", "--trace", str(file), *words)
    assert (code, out, err) == (2, "", f"error: {said}\n")


def test_what_a_trace_has_of_its_own_is_not_said_of_its_run(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text("sent,input,output\n0,100,20\n1,300,40\n")
    words = ("llama-3-8b", "--gpu", "h100-sxm", "--trace", str(file), "--requests", "1", "--json")
    told = json.loads(run(*words)[1])["run"]
    assert (told["input"], told["output"], told["requests"], told["spread"], told["seed"]) == (100, 20, 1, None, None)


def test_bursts_are_of_a_rate(run: Run) -> None:
    code, _, err = run("llama-3-8b", "--gpu", "h100-sxm", *CLOSED, "--burstiness", "2")
    said = "--burstiness: expected none beside --concurrency, in which it changes nothing, found 2.0"
    assert (code, err) == (2, f"error: {said}\n")


@pytest.mark.parametrize(("gpu", "noted"), [("m2-ultra", True), ("rtx-4090", False)])
def test_memory_that_macos_keeps_is_noted(run: Run, gpu: str, noted: bool) -> None:
    err = run(
        "llama-3-8b", "--gpu", gpu, "--engine", "llama.cpp", "--dtype", "q8_0", *CLOSED[:4], "--concurrency", "1"
    )[2]
    assert ("iogpu.wired_limit_mb" in err) == noted


def test_what_bounds_throughput_is_said(run: Run) -> None:
    """A rate that is answered with room to spare leaves no interval; one near capacity does."""
    words = ("llama-3-8b", "--gpu", "h100-sxm", "--input", "1024", "--output", "256", "--requests", "200")
    assert " tokens/s, as much as is asked for" in run(*words, "--rate", "0.04")[1]
    assert " tokens/s, as much as is asked for" not in run(*words, "--rate", "15")[1]


def test_ranks_that_wait_for_each_other_say_over_what_and_what_helps(run: Run) -> None:
    words = ("llama-3-70b", "--dtype", "fp8", *CLOSED, "--gpus", "8")
    slow = " ".join(run(*words, "--gpu", "l40s")[1].split())
    assert "sums of 8 ranks over their host, since they have no links of their own; a smaller --tp, or stages" in slow
    assert "sums of 8 ranks" not in run(*words, "--gpu", "h100-sxm")[1]


def test_a_price_is_told_as_a_plan_tells_it(run: Run) -> None:
    cost = json.loads(run("llama-3-8b", "--gpu", "h100-sxm", *CLOSED, "--price", "2/h", "--json")[1])["cost"]
    with_input = cost["per_million_output"] + cost["per_million_input"] * 512 / 128
    assert cost["per_million_output_with_input"] == pytest.approx(with_input, rel=0.05)


@pytest.mark.parametrize("option", ["--concurrency", "--requests"])
def test_more_than_a_simulation_takes_is_refused(run: Run, option: str) -> None:
    code, out, err = run("llama-3-8b", "--gpu", "h100-sxm", *CLOSED, option, str(2**40))
    assert (code, out, err) == (2, "", f"error: {option}: expected at most 1,000,000, found {2**40}\n")


@pytest.mark.parametrize(("kind", "some"), [("together", 4), ("apart", 64)])
def test_replicas_that_nobody_asks_stay_idle(run: Run, kind: str, some: int) -> None:
    """Four clients have four requests under way, on some servers or on very many."""

    def told(servers: int) -> Any:
        many = str(servers)
        gpus = ("--gpus", many, "--tp", "1") if kind == "together" else ("--prefill-gpus", many, "--decode-gpus", many)
        return json.loads(run("llama-3-8b", "--gpu", "h100-sxm", *CLOSED[:4], "--concurrency", "4", *gpus, "--json")[1])

    few, many = told(some), told(2**40)
    assert many["concurrency"] == few["concurrency"] <= 4
    assert (many["ttft"], many["tpot"]) == (few["ttft"], few["tpot"])


def test_a_rate_fills_every_replica(run: Run) -> None:
    """Eight servers at eight times the rate answer as one does, but that taking turns spreads what comes: a thousand
    requests for all never fill them."""
    words = ("llama-3-8b", "--gpu", "h100-sxm", "--input", "2048", "--output", "512", "--json")
    one, eight = (
        json.loads(run(*words, "--gpus", f"{servers}", "--tp", "1", "--rate", f"{5 * servers}")[1])
        for servers in (1, 8)
    )
    assert eight["run"]["requests"] == 8 * one["run"]["requests"] == 8000
    few = json.loads(run(*words, "--gpus", "8", "--tp", "1", "--rate", "40", "--requests", "1000")[1])
    assert few["tpot"]["mean"] < eight["tpot"]["mean"] < one["tpot"]["mean"]
    assert eight["tpot"]["mean"] == pytest.approx(one["tpot"]["mean"], rel=0.1)


@pytest.mark.parametrize("rate", ["1e-30", "5e-324", "9e-7"])
def test_requests_later_than_clocks_can_tell_are_refused(run: Run, rate: str) -> None:
    words = ("--gpu", "h100-sxm", "--input", "512", "--output", "128", "--rate", rate)
    code, out, err = run("llama-3-8b", *words)
    assert (code, out) == (2, "")
    assert err.startswith("error: --rate: expected 1,000 requests within 1,000,000,000 seconds, or fewer --requests")
    assert err.count("\n") == 1


def test_a_request_a_week_is_alone(run: Run) -> None:
    """As one at a time in a closed loop, and in figures that tell: none is printed as 0."""
    words = (
        "llama-3-8b",
        "--gpu",
        "h100-sxm",
        "--input",
        "512",
        "--output",
        "128",
        "--spread",
        "0",
        "--requests",
        "50",
    )
    rare, alone = (json.loads(run(*words, *each, "--json")[1]) for each in (("--rate", "2e-6"), ("--concurrency", "1")))
    for name in ("ttft", "tpot", "waiting"):
        assert rare[name]["mean"] == pytest.approx(alone[name]["mean"], rel=1e-3)
    _, out, _ = run(*words, "--rate", "2e-6")
    assert " 0 tokens/s" not in out
    assert " 0.0 at once" not in out


def test_waiting_is_all_of_a_first_token_but_reading(run: Run) -> None:
    """Alone, a request waits for the host; behind it comes the step that reads its prompt, and nothing else."""
    words = ("llama-3-8b", "--gpu", "h100-sxm", "--output", "8", "--concurrency", "1", "--spread", "0", "--json")
    for tokens in (64, 4096):
        told = json.loads(run(*words, "--input", str(tokens))[1])
        spec = load_model("llama-3-8b")
        service = service_of(spec, "h100-sxm", layout_of(spec))
        clock = service.server(tokens).clock
        assert told["waiting"]["mean"] == pytest.approx(service.request_seconds(tokens))
        reading = clock.seconds(0, 0, [Piece(0, tokens, True)])
        assert told["ttft"]["mean"] - told["waiting"]["mean"] == pytest.approx(reading)


def test_the_run_line_says_what_guesses(run: Run) -> None:
    words = ("llama-3-8b", "--gpu", "h100-sxm", *CLOSED, "--guess", "3", "--acceptance", "0.7")
    _, out, _ = run(*words)
    assert "cache_dtype bf16, guess 3, acceptance 0.7, guess_cost 0.0312" in " ".join(out.split())
    told = json.loads(run(*words, "--json")[1])["run"]
    assert (told["guess"], told["acceptance"], told["guess_cost"]) == (3, 0.7, 1 / 32)
    assert "guess" not in run(*words[:-4])[1]


def test_the_cache_is_told_with_its_size(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = ("llama-3-8b", "--gpu", "h100-sxm", *CLOSED)
    tokens = json.loads(run(*words, "--json")[1])["cache"]["tokens"]
    assert f"1% used at most of {tokens:,} tokens, 54.4 GiB a GPU;" in " ".join(run(*words)[1].split())


def test_the_table_fits_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run("llama-3-8b", "--gpu", "h100-sxm", *CLOSED)
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--guess", "3"), "--acceptance: expected the chance that a guess is right, from 0 to 1, beside --guess"),
        (("--acceptance", "0.5"), "--acceptance: expected none without --guess, found 0.5"),
        (("--guess-cost", "0.1"), "--guess-cost: expected none without --guess, found 0.1"),
        (("--guess-cost", "1e9"), "--guess-cost: expected a finite number from 0 to 1, found 1e9"),
    ],
)
def test_guesses_and_their_chance_go_together(run: Run, words: tuple[str, ...], said: str) -> None:
    code, out, err = run("llama-3-8b", "--gpu", "h100-sxm", *words, *CLOSED)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {said}")
