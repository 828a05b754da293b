"""What scripts may rely on: JSON keys and their sums, formats, exit status, one line for what is refused."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calc.cli import main
from tests.reference import ROOT
from tests.waiting import PATIENCE

Result = tuple[int, str, str]
Run = Callable[..., Result]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command line in this process: (exit status, stdout, stderr)."""

    def call(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["envelope", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return call


def test_params_json(run: Run) -> None:
    status, out, err = run("params", "mixtral-8x7b", "gpt2", "--json")
    assert (status, err) == (0, "")
    mixtral, gpt2 = map(json.loads, out.splitlines())
    assert list(mixtral) == ["model", "total", "active", "embedding", "lm_head", "components"]
    assert (mixtral["total"], mixtral["active"]) == (46_702_792_704, 12_879_925_248)
    for record in (mixtral, gpt2):
        assert sum(record["components"].values()) == record["total"]
    assert (gpt2["lm_head"], gpt2["embedding"]) == (0, 38_597_376)


def test_params_by_path(run: Run) -> None:
    status, out, _ = run("params", "gpt2", "--by-path", "--json")
    assert status == 0
    rows = [json.loads(line) for line in out.splitlines()]
    assert {"model": "gpt2", "path": "layers.11.attention.qkv_proj.weight", "shape": [2304, 768]} in rows
    assert len(rows) == 2 + 12 * 12 + 2


def test_no_power_of_ten_beside_whole_numbers(run: Run) -> None:
    words = ("flops", "whisper-large-v3", "--source-seq", "3000")
    record = json.loads(run(*words, "--json")[1])
    assert record["per_token"] % 1 > 0  # frames and tokens differ in number
    assert f"{record['per_token']:,.1f}" in run(*words)[1]


@pytest.mark.parametrize("phase", ["forward", "training", "decode"])
def test_flops_json(run: Run, phase: str) -> None:
    length = "--context" if phase == "decode" else "--seq"
    status, out, err = run("flops", "gpt2", length, "512", "--batch", "3", "--phase", phase, "--json")
    assert (status, err) == (0, "")
    record = json.loads(out)
    assert list(record) == ["model", "total", "linear", "attention", "other", "per_token", "convention", "run"]
    assert record["run"]["tokens_a_step"] == (3 if phase == "decode" else 3 * 512)
    assert record["total"] == record["linear"] + record["attention"] + record["other"]
    assert record["convention"] == "torch"
    # Counts of FlopCounterMode over transformers' GPT-2: forward and training at 512, decode with 512 cached.
    one = {"forward": 136_160_477_184, "training": 408_481_431_552, "decode": 265_975_296}[phase]
    assert record["total"] == 3 * one
    assert record["per_token"] == record["total"] / (3 if phase == "decode" else 3 * 512)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["llama-2-7b", "--seq", "1"], (524_288, 0)),
        (["llama-3-70b", "--seq", "8192"], (327_680, 0)),
        (["mixtral-8x7b", "--seq", "100"], (131_072, 0)),
        (["gemma-2-9b", "--seq", "2048"], (344_064, 0)),
        (["gemma-2-9b", "--seq", "4095"], (344_064, 0)),
        (["gemma-2-9b", "--seq", "4096"], (172_032, 21 * 8192 * 4096)),
        (["gemma-2-9b", "--seq", "8192"], (172_032, 21 * 8192 * 4096)),
        (["gemma-2-9b", "--seq", "8192", "--window-reading", "cache"], (172_032, 21 * 8192 * 4095)),
        (["falcon-7b", "--seq", "10"], (8192, 0)),
    ],
)
def test_kv_cache_json(run: Run, arguments: list[str], expected: tuple[int, int]) -> None:
    status, out, _ = run("kv-cache", *arguments, "--batch", "5", "--json")
    assert status == 0
    record = json.loads(out)
    assert list(record) == ["model", "bytes_per_token", "average_bytes_per_token", "state_bytes", "total_bytes", "run"]
    assert (record["bytes_per_token"], record["state_bytes"]) == expected
    seq = int(arguments[2])
    assert record["total_bytes"] == 5 * (seq * expected[0] + expected[1])
    assert record["average_bytes_per_token"] == record["total_bytes"] / (5 * seq)


def test_windowed_averages(run: Run) -> None:
    for model, average in (("gemma-2-9b", 258_048), ("gpt-oss-20b", 24_960)):
        assert json.loads(run("kv-cache", model, "--seq", "8192", "--json")[1])["average_bytes_per_token"] == average


@pytest.mark.parametrize(("dtype", "factor"), [("fp32", 4), ("fp16", 2), ("bf16", 2), ("fp8", 1), ("int8", 1)])
def test_cache_dtypes(run: Run, dtype: str, factor: int) -> None:
    record = json.loads(run("kv-cache", "gpt2", "--seq", "7", "--dtype", dtype, "--json")[1])
    assert record["bytes_per_token"] == 18_432 * factor


def test_the_same_figures_in_every_format(run: Run) -> None:
    figures = [run("params", "gpt2", "--format", fmt)[1] for fmt in ("table", "markdown")]
    assert all("124,439,808" in text for text in figures)
    (row,) = csv.DictReader(io.StringIO(run("params", "gpt2", "--format", "csv")[1]))
    assert row["total"] == "124439808"
    assert row["components.mlp"] == "56669184"


def test_report_is_one_page_of_eighty_columns(run: Run) -> None:
    for model in ("gpt2", "llama-3.1-405b", "gpt-oss-120b", "gpt3-175b"):
        status, out, err = run("report", model)
        assert (status, err) == (0, "")
        assert max(map(len, out.splitlines())) <= 80
        for word in ("PARAMETERS", "FLOPS", "KV CACHE", "WEIGHTS", "explain", "6·N"):
            assert word in out


def test_every_explain_command_of_the_report_gives_its_figure(run: Run) -> None:
    _, page, _ = run("report", "mistral-7b")
    report = json.loads(run("report", "mistral-7b", "--json")[1])
    commands = [line.partition("explain ")[2].split() for line in page.splitlines() if "explain " in line]
    values = {json.loads(run("explain", *command, "--json")[1])["value"] for command in commands}
    figures = {report["params"]["total"], report["params"]["active"]}
    figures |= {report["flops"][phase] for phase in ("forward", "training", "decode")}
    assert values == figures | set(report["kv_cache"].values()) | set(report["weights"].values())


def test_models_side_by_side_share_a_sequence_length(run: Run) -> None:
    records = [json.loads(line) for line in run("report", "gpt2", "llama-3-8b", "--json")[1].splitlines()]
    assert [record["flops"]["seq"] for record in records] == [1024, 1024]


def test_explain_json(run: Run) -> None:
    record = json.loads(run("explain", "llama-3-8b", "kv_cache", "--seq", "4096", "--batch", "2", "--json")[1])
    assert record["value"] == 2 * 4096 * 131_072
    assert set(record["symbols"]) == {"n_layers", "n_kv_heads", "d_model", "n_heads", "batch", "seq", "b_dtype"}
    assert "Shazeer" in record["source"]


def test_solve_json(run: Run) -> None:
    record = json.loads(run("solve", "llama-3-8b", "kv_cache<=40GiB", "--for", "seq", "--json")[1])
    assert record["candidates"] == [{"sizes": {"seq": 327_680}, "value": 40 * 2**30}]
    assert run("solve", "llama-3-8b", "params=1", "--for", "n_layers")[0] == 1


def test_conventions_name_their_source(run: Run) -> None:
    records = [json.loads(line) for line in run("conventions", "--json")[1].splitlines()]
    assert all(record["source"] and record["formula"] for record in records)
    compared = run("conventions", "--compare", "gpt-oss-20b", "--phase", "decode", "--json")[1]
    refusing = [json.loads(line) for line in compared.splitlines() if '"total": null' in line]
    assert all("phase" in record["reason"] for record in refusing)


def test_lecture_counts_its_own_parameters_and_says_what_it_does_not_see(run: Run) -> None:
    status, out, err = run("params", "mixtral-8x7b", "--convention", "lecture", "--json")
    assert status == 0
    assert json.loads(out)["total"] == 2 * 32000 * 4096 + 12 * 32 * 4096**2
    assert err.count("note: ") >= 1


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["params", "nope"], "MODEL"),
        (["params"], "MODEL"),
        (["nonsense"], "COMMAND"),
        (["flops", "gpt2", "--seq", "0"], "--seq"),
        (["flops", "gpt2", "--seq", "-1"], "--seq"),
        (["flops", "gpt2", "--seq", "1.5"], "--seq"),
        (["flops", "gpt2", "--seq", "9" * 5000], "--seq"),
        (["flops", "gpt2", "--batch", "two"], "--batch"),
        (["flops", "gpt2", "--phase", "sideways"], "--phase"),
        (["flops", "gpt2", "--convention", "mine"], "convention"),
        (["flops", "gpt2", "--phase", "decode", "--convention", "chinchilla"], "phase"),
        (["flops", "gpt2", "--phase", "training", "--convention", "palm", "--checkpointing", "full"], "checkpointing"),
        (["kv-cache", "gpt2", "--dtype", "int3"], "--dtype"),
        (["explain", "gpt2", "nonsense"], "QUANTITY"),
        (["solve", "gpt2", "params", "--for", "d_model"], "QUANTITY=VALUE"),
        (["solve", "gpt2", "params=-1", "--for", "d_model"], "params"),
        (["solve", "gpt2", "params=0", "--for", "d_model"], "params"),
        (["solve", "gpt2", "params=7GiB", "--for", "d_model"], "params"),
        (["solve", "gpt2", "params=7B", "--for", "flux"], "--for"),
        (["params", "gpt2", "--no-such-option"], "--no-such-option"),
        (["params", "a\nb\x1b[31m.json"], "no such file"),
    ],
)
def test_what_is_refused_takes_one_line_and_exit_status_2(run: Run, arguments: list[str], field: str) -> None:
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert field in err
    assert all(c.isprintable() for c in err[:-1])


def test_hostile_configs(run: Run, tmp_path: Path) -> None:
    good = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257}
    path = tmp_path / "config.json"
    for change in (
        {"n_embd": True}, {"n_embd": 768.0}, {"n_embd": "768"}, {"n_embd": None}, {"n_embd": -768}, {"n_embd": 2**32},
        {"n_layer": 10**5 + 1}, {"n_layer": 0}, {"n_head": 7}, {"vocab_size": [50257]}, {"vocab_size": {"a": {}}},
        {"model_type": "nonsense", "auto_map": {"AutoModel": "x.y"}}, {"model_type": None},
        {"activation_function": "xielu"},
    ):  # fmt: skip
        path.write_text(json.dumps(good | change))
        status, out, err = run("report", str(path))
        assert (status, out) == (2, ""), change
        assert err.count("\n") == 1
        assert any(key in err for key in change)
    for key in ("n_embd", "n_layer", "n_head", "vocab_size", "model_type"):
        path.write_text(json.dumps({k: v for k, v in good.items() if k != key}))
        status, _, err = run("report", str(path))
        assert status == 2
        assert f"error: {path}: {key}: expected" in err
        assert "found nothing" in err


def test_auto_map_is_ignored_aloud(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    config = {"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 1, "vocab_size": 5, "n_positions": 4}
    config["architectures"] = ["GPT2LMHeadModel"]
    path.write_text(json.dumps(config | {"auto_map": {"AutoModel": "evil.Evil"}}))
    status, out, err = run("params", str(path), "--json")
    assert status == 0
    assert json.loads(out)["total"] > 0
    assert err.count("\n") == 1
    assert "auto_map" in err


def test_a_reader_that_leaves_early_is_no_fault() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "calc", "params", "mixtral-8x7b", "--by-path"],
        cwd=ROOT,
        stdout=write,
        stderr=subprocess.PIPE,
    )
    os.close(write)
    assert b"Traceback" not in done.stderr


def calc_process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "calc", *arguments]
    return subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, timeout=PATIENCE, check=False, **options)


def test_nothing_typed_gets_the_help(run: Run) -> None:
    status, out, err = run()
    assert (status, err) == (0, "")
    assert out.startswith("Usage:")
    assert "report" in out


def test_a_full_disk_and_a_closed_stdout_are_said_in_one_line() -> None:
    with open("/dev/full", "wb") as full:
        done = calc_process("report", "gpt2", stdout=full)
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: ")
    assert done.stderr.count(b"\n") == 1
    closed = calc_process("report", "gpt2", preexec_fn=lambda: os.close(1))
    assert closed.returncode == 1
    assert closed.stderr.count(b"\n") == 1


def test_a_config_on_standard_input() -> None:
    config = {"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 1, "vocab_size": 5, "n_positions": 4}
    done = calc_process("params", "-", "--json", input=json.dumps(config).encode(), stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["model"] == "stdin"


def test_presets_are_found_in_any_case(run: Run) -> None:
    assert json.loads(run("params", "LLaMA-3-8B", "--json")[1])["model"] == "llama-3-8b"


def test_a_misspelt_key_is_not_passed_over(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    config = {
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8,
        "intermediate_size": 96, "vocab_size": 100, "num_key_value_head": 2,
    }  # fmt: skip
    path.write_text(json.dumps(config))
    status, out, err = run("params", str(path))
    assert (status, out) == (2, "")
    assert "num_key_value_head: expected num_key_value_heads, which is absent" in err


@pytest.mark.parametrize("name", ["a\nb\u001b[31m", "x" * 300])
def test_hostile_names_are_refused(run: Run, tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.toml"
    path.write_text(
        f"name = {json.dumps(name)}\nd_model = 8\nn_layers = 1\nn_heads = 1\nvocab_size = 8\nmax_seq_len = 8"
    )
    status, out, err = run("report", str(path))
    assert (status, out) == (2, "")
    assert err.count("\n") == 1


def test_hostile_folders_do_not_break_a_line(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "ev\nil\x1b[31m"
    folder.mkdir()
    config = {"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 1, "vocab_size": 5, "n_positions": 4}
    (folder / "config.json").write_text(json.dumps(config))
    status, out, err = run("report", str(folder / "config.json"))
    assert status == 0
    assert "\x1b" not in out + err
    assert out.splitlines()[0].startswith(r"ev\nil\x1b[31m (gpt2)")


def test_the_report_of_a_file_names_the_file(run: Run, tmp_path: Path) -> None:
    """A config called gpt2.json is not the preset gpt2; the commands beside its figures must say so."""
    path = tmp_path / "gpt2.json"
    path.write_text(json.dumps({"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 1, "vocab_size": 5}))
    _, out, _ = run("report", str(path))
    assert f"MODEL stands for {path}" in out or f"explain {path} params" in out


def test_a_terminal_never_breaks_a_number() -> None:
    """Under a terminal of 60 columns, through a pseudo-terminal."""
    leader, follower = os.openpty()
    environment = {**os.environ, "COLUMNS": "60", "TERM": "dumb"}
    models = ["llama-3-8b", "gemma-2-9b", "gpt-oss-20b", "mixtral-8x7b"]
    command = [sys.executable, "-m", "calc", "params", *models]
    with subprocess.Popen(command, cwd=ROOT, stdout=follower, env=environment) as process:
        os.close(follower)
        text = b""
        while chunk := read_some(leader):
            text += chunk
    os.close(leader)
    assert process.returncode == 0
    for number in (b"8,030,261,248", b"9,241,705,984", b"20,914,757,184", b"46,702,792,704"):
        assert number in text


def read_some(descriptor: int) -> bytes:
    """What a pseudo-terminal has to say; its end is an error on Linux."""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""
