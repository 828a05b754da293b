"""`predict` on the command line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from calc.units import si
from tests.cli.test_commands import Run, run

__all__ = ["run"]


def test_json_has_its_keys_and_sums(run: Run) -> None:
    status, out, _ = run("predict", "llama-3-8b", "--gpu", "h100-sxm", "--phase", "training", "--batch", "2", "--json")
    record = json.loads(out)
    assert status == 0
    asked = ("model", "device", "seconds", "tokens_per_second", "mfu", "interval", "by_component", "bound")
    assert set(asked) <= set(record)
    assert set(record["interval"]) == {"level", "low", "high"}
    assert record["interval"]["low"] < record["seconds"] < record["interval"]["high"]
    assert sum(record["by_component"].values()) == pytest.approx(record["seconds"])
    assert record["tokens_per_second"] == pytest.approx(2 * 2048 / record["seconds"])
    assert 0 < record["mfu"] < 1
    assert record["mfu_convention"] == "palm"
    assert "ops" not in record


def test_decode_has_no_mfu(run: Run) -> None:
    _, out, _ = run("predict", "llama-3-8b", "--gpu", "h200", "--phase", "decode", "--execution", "graph", "--json")
    record = json.loads(out)
    assert record["mfu"] is None
    assert record["tokens"] == 1
    assert record["bound"] == "memory"


def test_every_op_on_request(run: Run) -> None:
    arguments = ("predict", "gpt2", "--gpu", "a100-sxm-80gb", "--seq", "512", "--phase", "training")
    _, short, _ = run(*arguments)
    _, whole, _ = run(*arguments, "--by-op")
    assert "--by-op lists" in short
    assert "--by-op lists" not in whole
    _, out, _ = run(*arguments, "--by-op", "--json")
    ops = json.loads(out)["ops"]
    up = next(op for op in ops if op["path"] == "layers.{}.mlp.up_proj" and op["direction"] == "forward")
    assert up["flops"] == 12 * 2 * 512 * 768 * 3072
    assert up["flops_per_second"] == pytest.approx(up["flops"] / up["seconds"])
    assert f"{up['intensity']:,.1f}" in whole


@pytest.mark.parametrize(
    ("model", "plan", "factors"),
    [
        ("gpt2", ("--tp", "4", "--no-sequence-parallel"), {"all_reduce": 2 * 3 / 4}),
        ("gpt2", ("--tp", "4"), {"all_gather": 3 / 4, "reduce_scatter": 3 / 4}),
        ("gpt2", ("--dp", "8", "--zero", "1"), {"all_gather": 7 / 8, "reduce_scatter": 7 / 8}),
        ("gpt2", ("--pp", "2"), {"send": 1.0, "all_reduce": 1.0}),
        ("gpt-oss-20b", ("--dp", "8", "--ep", "8"), {"all_to_all": 7 / 8, "all_reduce": 2 * 7 / 8}),
    ],
)
def test_collectives_have_the_bus_bandwidth_of_nccl_tests(
    run: Run, model: str, plan: tuple[str, ...], factors: dict[str, float]
) -> None:
    """Their doc/PERFORMANCE.md: algorithm bandwidth times a factor of the collective and its number of ranks."""
    words = ("predict", model, "--cluster", "dgx-h100", "--phase", "training", "--seq", "512", *plan, "--by-op")
    _, text, _ = run(*words)
    ops = json.loads(run(*words, "--json")[1])["ops"]
    found = {op["function"]: op for op in ops if op["direction"] == "network"}
    assert found.keys() == factors.keys()
    for name, factor in factors.items():
        assert found[name]["bus_bytes_per_second"] == pytest.approx(factor * found[name]["bytes_per_second"])
        assert f"bus {si(found[name]['bus_bytes_per_second'], 'B/s')}" in text
    assert all(op["bus_bytes_per_second"] is None for op in ops if op["direction"] != "network")
    assert "nccl-tests' bus bandwidth" in text


def test_a_rank_alone_has_no_bus(run: Run) -> None:
    _, text, _ = run("predict", "gpt2", "--gpu", "h100-sxm", "--phase", "training", "--seq", "512", "--by-op")
    assert "bus" not in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--gpu: expected --gpu, --profile or --cluster, found neither"),
        (("--gpu", "h100-sxm", "--profile", "x.json"), "found both"),
        (("--gpu", "gtx"), "GPU: expected a device of the catalogue"),
        (("--profile", "nowhere.json"), "nowhere.json"),
        (("--profile", "nowhere"), "--profile: expected a JSON file"),
        (("--gpu", "v100-sxm2-16gb"), "published peak"),
        (
            ("--gpu", "h100-sxm", "--phase", "training", "--dtype", "int4"),
            "dtype: expected in training a recipe, one of fp32",
        ),
        (("--gpu", "h100-sxm", "--network", "fast"), "--network"),
        (("--gpu", "h100-sxm", "--phase", "training", "--dp", "64"), "--network"),
        (("--gpu", "h100-sxm", "--tp", "5"), "tp: expected a divisor"),
    ],
)
def test_refusals_take_one_line(run: Run, arguments: tuple[str, ...], said: str) -> None:
    status, out, err = run("predict", "gpt2", "--seq", "64", *arguments)
    assert (status, out) == (2, "")
    assert said in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_a_broken_profile_is_refused(run: Run, tmp_path: Path) -> None:
    for text in ("", "{", "[]", '{"name": "x"}', '{"schema_version": 2}', "\x00"):
        path = tmp_path / "profile.json"
        path.write_text(text)
        status, _, err = run("predict", "gpt2", "--profile", str(path))
        assert status == 2
        assert err.count("\n") == 1


def test_a_picture_has_a_length_of_its_own(run: Run, tmp_path: Path) -> None:
    config = {"model_type": "vit", "architectures": ["ViTForImageClassification"], "image_size": 224, "num_labels": 10}
    sizes = {"hidden_size": 192, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 768}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**config, **sizes, "patch_size": 16}))
    arguments = ("predict", str(path), "--gpu", "h100-sxm", "--batch", "8")
    _, out, _ = run(*arguments, "--json")
    assert json.loads(out)["tokens"] == 8 * (14 * 14 + 1)
    _, shown, _ = run(*arguments)
    assert "8 × 197 vectors" in shown
    assert "vectors/s" in shown


@pytest.mark.parametrize("phase", ["forward", "prefill", "training"])
def test_experts_that_no_token_visits_are_no_model_flops(run: Run, phase: str) -> None:
    _, out, _ = run("predict", "qwen3-30b-a3b", "--gpu", "h200", "--phase", phase, "--batch", "4", "--json")
    record = json.loads(out)
    assert record["mfu_convention"] == "torch"
    assert 0 < record["mfu"] < 1


@pytest.mark.parametrize(
    ("model", "seq", "pairs", "said"),
    [
        ("llama-3-8b", "2048", "all", "(palm, all pairs; peak: datasheet, dense bf16)"),
        ("llama-3-8b", "65536", "causal", "(palm, causal pairs; peak: datasheet, dense bf16)"),
        ("qwen3-30b-a3b", "65536", "causal", "(torch, causal pairs; peak: datasheet, dense bf16)"),
        ("rwkv7-1.5b", "4096", None, "(torch; peak: datasheet, dense bf16)"),
    ],
)
def test_mfu_says_which_pairs_it_counts(run: Run, model: str, seq: str, pairs: str | None, said: str) -> None:
    words = ("predict", model, "--gpu", "h100-sxm", "--phase", "training", "--seq", seq)
    _, out, _ = run(*words, "--json")
    assert json.loads(out)["mfu_pairs"] == pairs
    _, text, _ = run(*words)
    assert said in text


def test_lists_have_a_column_an_item_in_csv(run: Run) -> None:
    words = ("predict", "gpt2", "--gpu", "h100-sxm", "--phase", "training", "--seq", "64", "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(run(*words, "--recompute", "attention,mlp")[1]))
    assert {name: value for name, value in row.items() if "recompute" in name and name.startswith("plan.")} == {
        "plan.recompute.0": "attention",
        "plan.recompute.1": "mlp",
    }
    (row,) = csv.DictReader(io.StringIO(run(*words)[1]))
    assert not any(name.startswith("plan.recompute") for name in row)


def test_what_does_not_fit_is_said_once_with_what_to_ask(run: Run) -> None:
    words = ("predict", "llama-3-8b", "--phase", "training", "--seq", "512", "--gpu")
    _, text, _ = run(*words, "l4")
    (line,) = [each for each in text.splitlines() if "does not fit" in each]
    assert line.startswith("memory ")
    assert text.count("see `python -m calc memory`") == 1
    _, text, _ = run(*words, "b200")
    assert "does not fit" not in text


def test_experts_exchange_is_told(run: Run) -> None:
    words = ("predict", "gpt-oss-20b", "--cluster", "dgx-h100", "--phase", "training", "--seq", "512", "--dp", "4")
    record = json.loads(run(*words, "--ep", "4", "--json")[1])
    assert {each.pop("layers") for each in record["expert_exchange"]} == {"sliding", "full"}
    (told,) = {tuple(each.items()) for each in record["expert_exchange"]}
    rows = {"sent_by_rank": 512 * 4, "computed_by_rank": 512 * 4, "computed_by_expert": 4 * 512 * 4 / 32}
    assert dict(told) == {"ranks": 4, "once_a_rank": False, **rows}
    _, text, _ = run(*words, "--ep", "4")
    line = "each of 4 ranks sends 2,048 rows and computes 2,048, 256 an expert: balanced, all have as many"
    assert line in " ".join(text.split())
    _, text, _ = run(*words)
    assert "experts' exchange" not in text


@pytest.mark.parametrize("width", [60, 80, 100])
def test_names_of_ops_are_cut_at_a_dot_alone(run: Run, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Every name on a narrow terminal is one of the whole names, or its end from a dot on; wide ones stay whole."""
    words = ("predict", "llama-3-8b", "--gpu", "h100-sxm", "--phase", "decode", "--by-op")
    _, out, _ = run(*words, "--json")
    whole = {op["path"] for op in json.loads(out)["ops"]}
    monkeypatch.setenv("COLUMNS", str(width))
    _, out, _ = run(*words)
    rows = out[out.index("\nop ") :].splitlines()[2:]
    shown = [line.split()[0] for line in rows if "/s" in line]
    assert len(shown) == len(whole)
    for name in shown:
        assert name in whole or (name.startswith("….") and any(path.endswith(name[1:]) for path in whole))
    if width >= 80:
        assert max(map(len, rows[: len(shown)])) <= width


def test_collectives_keep_the_name_of_their_op_in_80_columns(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run("predict", "llama-3-70b", "--gpu", "h200", "--phase", "training", "--tp", "8")
    shown = {line.split()[0] for line in out.splitlines() if "  bus " in line}
    assert shown == {"….o_proj.tensor", "….down_proj.tensor"}
    assert max(map(len, out.splitlines())) <= 80


def test_a_gpu_beside_a_cluster_of_others_is_refused(run: Run) -> None:
    asked = ("predict", "gpt2", "--phase", "training", "--cluster", "dgx-h100", "--gpus", "8", "--gpu")
    told = "error: --gpu: expected h100-sxm, which dgx-h100 is made of, or no --cluster, found h200\n"
    assert run(*asked, "h200") == (2, "", told)
    assert run(*asked, "h100-sxm")[0] == 0


@pytest.mark.parametrize(
    ("phase", "said"),
    [
        ("training", "memory leaves out what modules that predict further tokens keep for backward"),
        ("prefill", "memory leaves out what modules that predict further tokens hold: their weights, cache and"),
        ("decode", "note: --mtp changes nothing in decode"),
    ],
)
def test_what_memory_leaves_out_of_further_tokens_is_said(run: Run, phase: str, said: str) -> None:
    words = ("--dp", "8", "--ep", "8") if phase == "training" else ("--tp", "8", "--dtype", "fp8")
    status, out, err = run("predict", "deepseek-v3", "--gpu", "h200", "--phase", phase, "--mtp", *words)
    assert status == 0
    assert said in " ".join((out + err).split())


@pytest.mark.parametrize(
    ("asked", "execution"),
    [(("llama-3-8b", "--phase", "decode"), "graph"), (("gpt2", "--phase", "training"), "compiled")],
)
def test_waiting_for_launches_is_told_beside_what_does_not_wait(
    run: Run, asked: tuple[str, ...], execution: str
) -> None:
    """The other time is that of the other execution, asked for by itself; where little waits, none is told."""
    arguments = ("predict", *asked, "--gpu", "h100-sxm")
    _, told, _ = run(*arguments)
    _, ahead, _ = run(*arguments, "--execution", execution)
    line = next(line for line in told.splitlines() if line.startswith("launched ahead"))
    seconds = ahead.splitlines()[1].partition(" ")[2].strip()
    assert line.split(maxsplit=2)[2].startswith(f"{seconds} with --execution {execution}")
    assert "launched ahead" not in ahead
    record = json.loads(run(*arguments, "--json")[1])["launched_ahead"]
    assert record["execution"] == execution
    assert record["seconds"] == json.loads(run(*arguments, "--execution", execution, "--json")[1])["seconds"]
    assert "launched ahead" not in run(*arguments, "--batch", "512")[1]


@pytest.mark.parametrize(("stack", "said"), [("torchtitan", True), ("megatron-core", False)])
def test_what_memory_takes_pipelines_to_return_is_said(run: Run, stack: str, said: bool) -> None:
    words = ("--cluster", "dgx-h100", "--gpus", "8", "--phase", "training", "--stack", stack)
    told = "torch.distributed.pipelining's step"
    assert (told in run("predict", "gpt2", *words, "--pp", "4")[1]) == said
    assert told not in run("predict", "gpt2", *words)[1]
