"""What a first try meets: defaults that fit the model, amounts with units, hints at what was meant."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from calc import NoSolution, Refused, load_model, solve
from calc.cli import main
from calc.spec.assumption import DefaultTaken
from calc.units import parse_bytes

Run = Callable[..., tuple[int, str, str]]
VIT = {
    "model_type": "vit",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "image_size": 32,
    "patch_size": 16,
    "num_channels": 3,
    "num_labels": 10,
    "architectures": ["ViTForImageClassification"],
}
T5 = {
    "model_type": "t5",
    "d_model": 64,
    "d_kv": 32,
    "d_ff": 128,
    "num_layers": 2,
    "num_heads": 2,
    "vocab_size": 128,
    "relative_attention_num_buckets": 32,
    "feed_forward_proj": "relu",
    "architectures": ["T5ForConditionalGeneration"],
}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command line in this process: (exit status, stdout, stderr)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["envelope", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return call


def described(tmp_path: Path, config: dict[str, object], name: str) -> str:
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(config))
    return str(path)


@pytest.mark.parametrize("command", ["flops", "kv-cache", "memory"])
def test_sequences_are_no_longer_than_the_model_takes(run: Run, command: str) -> None:
    _, own, err = run(command, "gpt2", "--json")
    assert "is past" not in err
    assert own == run(command, "gpt2", "--json", "--seq", "1024")[1]
    assert "512" in run("conventions", "--compare", "bert-base")[1].splitlines()[0]


def test_a_decoded_token_has_a_place_behind_those_in_the_cache(run: Run) -> None:
    status, out, err = run("flops", "gpt2", "--phase", "decode", "--json")
    assert (status, err) == (0, "")
    assert out == run("flops", "gpt2", "--phase", "decode", "--context", "1023", "--json")[1]
    whole = json.loads(run("report", "gpt2", "--json")[1])["flops"]
    assert whole["context"] == 1023
    assert whole["decode"] == json.loads(out)["total"]


def test_pictures_have_a_length_of_their_own(run: Run, tmp_path: Path) -> None:
    path = described(tmp_path, VIT, "vit")
    assert "note: vit: --seq changes nothing" in run("flops", path, "--seq", "10")[2]
    assert run("flops", path)[2] == ""
    assert "--seq changes" not in run("flops", "gpt2", "--seq", "10")[2]


def test_a_report_names_the_source_beside_a_sequence(run: Run, tmp_path: Path) -> None:
    path = described(tmp_path, T5, "t5")
    _, page, _ = run("report", path)
    assert "FLOPS, 2,048 tokens + as many of a source" in page
    assert "KV CACHE of one sequence and of a source as long" in page
    assert max(len(line) for line in page.splitlines() if path not in line) <= 80
    _, explained, _ = run("explain", path, "kv_cache", "--json")
    assert json.loads(explained)["formula"].endswith("(seq + source_seq)")
    assert "keys and values of the source" in json.loads(explained)["terms"]


@pytest.mark.parametrize(
    ("text", "n"), [("80GiB", 80 * 2**30), ("80 gib", 80 * 2**30), (" 80gb", 80 * 10**9), ("512 bytes", 512)]
)
def test_bytes_with_a_unit(text: str, n: int) -> None:
    assert parse_bytes(text, "--budget") == n


@pytest.mark.parametrize("text", ["80", "1e9", "80i", "gib", "-1GiB", "0B"])
def test_bytes_without_one_are_refused(text: str) -> None:
    with pytest.raises(Refused, match="--budget: expected"):
        parse_bytes(text, "--budget")


def test_a_budget_alone_is_no_bytes(run: Run) -> None:
    for asked in (("memory", "gpt2", "--budget", "80"), ("solve", "gpt2", "memory.peak<=80", "--for", "batch")):
        status, _, err = run(*asked)
        assert status == 2
        assert "such as 80GiB, found 80" in err


def test_where_every_size_fits_the_smallest_does(run: Run) -> None:
    asked = ("solve", "gpt2", "memory.peak<=80GiB", "--for", "tp", "--mode", "inference", "--seq", "128")
    status, out, err = run(*asked, "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["candidates"][0]["sizes"] == {"tp": 1}
    with pytest.raises(NoSolution, match="GiB"):
        solve(load_model("gpt2"), "memory.peak", 1, "batch", budget=True)


def test_low_rank_updates_of_what_a_model_has(run: Run) -> None:
    status, out, err = run("params", "gpt2", "llama-3-8b", "--lora-rank", "8", "--json")
    fused, apart = map(json.loads, out.splitlines())
    assert status == 0
    assert fused["trainable"] == 12 * 8 * (768 + 3 * 768)
    assert apart["trainable"] == 32 * 8 * (4096 + 4096 + 4096 + 1024)
    assert err == "note: gpt2: --lora-targets qkv_proj, since q_proj and v_proj are one matrix here\n"
    assert run("params", "gpt2", "--lora-rank", "8", "--lora-targets", "q_proj")[0] == 2


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        (("memry",), "memory"),
        (("kvcache",), "kv-cache"),
        (("explain", "gpt2", "kvcache"), "kv_cache"),
        (("explain", "gpt2", "memory"), "memory.peak"),
    ],
)
def test_what_was_meant(run: Run, asked: tuple[str, ...], meant: str) -> None:
    status, _, err = run(*asked)
    assert status == 2
    assert f"did you mean {meant}" in err


def test_a_config_of_no_family_has_no_nearest_one(run: Run, tmp_path: Path) -> None:
    _, _, err = run("params", described(tmp_path, {"hidden_size": 8}, "none"))
    assert "nearest" not in err


def test_the_hub_is_quoted_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")

    def fails(*_: object) -> None:
        raise OSError("We could not connect.\nPlease make sure your Internet connection\nis on.")

    monkeypatch.setattr(hub, "hf_hub_download", fails)
    with pytest.raises(ConnectionError, match=r"connect\. Please make sure your Internet connection is on\.$"):
        load_model("some/model")


def test_blocks_need_not_divide_a_sequence(run: Run) -> None:
    status, out, _ = run("complexity", "--seq", "197", "--json")
    sparse = next(r for r in map(json.loads, out.splitlines()) if r.get("layer") == "block-sparse attention")
    assert (status, sparse["memory"]) == (0, 197 * (64 + 4))


@pytest.mark.parametrize("asked", [("lectures",), ("conventions",), ("quantities",), ("gpus", "h100-sxm"), ("models",)])
def test_tables_fold_where_columns_are_said(run: Run, monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    folded = run(*asked)[1].splitlines()
    monkeypatch.delenv("COLUMNS")
    plain = run(*asked)[1].splitlines()
    assert max(map(len, folded)) <= 80 < max(map(len, plain))


def test_a_length_in_the_file_is_no_default(tmp_path: Path) -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "intermediate_size": 128,
        "vocab_size": 128,
        "max_position_embeddings": 32768,
        "rope_scaling": scaling,
    }
    spec = load_model(described(tmp_path, config, "long"))
    assert not any("original_max_position_embeddings" in str(note) for note in spec.notes)
    del scaling["original_max_position_embeddings"]
    spec = load_model(described(tmp_path, config, "long"))
    assert DefaultTaken(key="rope_scaling.original_max_position_embeddings", value=32768) in spec.notes
