"""`tokens`, token budgets in place of lengths, and corpora for `optimal` and `loss`, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from calc.cli import cli
from calc.errors import Refused
from tests.reference import ROOT
from tests.tokens.pipelines import described, encoder


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words, catch_exceptions=False)


def records(*words: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in run(*words, "--json").stdout.splitlines()]


def test_files_and_their_total(tmp_path: Path) -> None:
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text(described("gpt4-2"))
    files = [ROOT / "LICENSE", ROOT / "pyproject.toml"]
    *each, total = records("tokens", *map(str, files), "--tokenizer", str(tokenizer))
    texts = [path.read_text() for path in files]
    assert [record["tokens"] for record in each] == encoder("gpt4-2").count(texts)
    assert [record["words"] for record in each] == [len(text.split()) for text in texts]
    for name in ("tokens", "bytes", "words"):
        assert total[name] == sum(record[name] for record in each)  # pyright: ignore[reportArgumentType, reportCallIssue]
    assert total["file"] == "total"


def test_what_is_not_utf8_is_said(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes("Größe\n".encode("latin-1"))
    done = run("tokens", str(path), "--bytes-per-token", "2")
    assert "counts as U+FFFD, 2 times" in done.stderr
    assert records("tokens", str(path), "--bytes-per-token", "2")[0]["tokens"] == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["LICENSE"], "either --tokenizer FILE or --bytes-per-token"),
        (["LICENSE", "--bytes-per-token", "4", "--tokenizer", "x.json"], "found both"),
        (["LICENSE", "--bytes-per-token", "4", "--seq", "4"], "--train-vocab beside it"),
        (["LICENSE", "--bytes-per-token", "4", "--pattern", "gpt2"], "--pattern"),
        (["LICENSE", "--train-vocab", "600"], "--model"),
        (["LICENSE", "--train-vocab", "600", "--bytes-per-token", "4"], "no --train-vocab"),
        (["absent.txt", "--bytes-per-token", "4"], "no such file"),
        (["calc", "--bytes-per-token", "4"], "a folder"),
    ],
)
def test_refusals(words: list[str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(Refused, match=message):
        run("tokens", *words)


def test_training_a_vocabulary() -> None:
    sources = [str(path) for path in sorted((ROOT / "calc" / "cli").glob("*.py"))]
    found = records("tokens", *sources, "--train-vocab", "1024", "--model", "gpt2", "--seq", "128")
    assert [record["vocab_size"] for record in found] == [1024, 512]
    assert "FLOP a byte" in run("tokens", *sources, "--train-vocab", "600", "--model", "gpt2").stdout


@pytest.mark.parametrize(
    "command",
    [
        ("flops", "gpt2"),
        ("kv-cache", "gpt2"),
        ("report", "gpt2"),
        ("memory", "gpt2"),
        ("explain", "gpt2", "flops.forward"),
    ],
    ids=lambda command: command[0],
)
def test_budgets_in_place_of_lengths(command: tuple[str, ...]) -> None:
    asked = run(*command, "--seq", "tokens:image=224x224,patch=16,special=1")
    assert asked.exit_code == 0
    assert asked.stdout == run(*command, "--seq", "197").stdout


def test_a_corpus_is_unique_tokens() -> None:
    (by_bytes,) = records("optimal", "--compute", "1e22", "--corpus", "300 GB", "--bytes-per-token", "4")
    (by_tokens,) = records("optimal", "--compute", "1e22", "--unique-tokens", "75e9")
    assert {name: by_bytes[name] for name in by_tokens} == by_tokens
    assert by_bytes["corpus_tokens"] == 75e9
    assert by_bytes["corpus_epochs"] == by_bytes["epochs"]
    assert by_bytes["corpus"] == "300 GB at 4 bytes a token"
    (by_words,) = records("optimal", "--compute", "1e22", "--corpus", "30e9 words", "--tokens-per-word", "1.5")
    assert by_words["corpus"] == "30.0B words at 1.5 tokens a word"
    with pytest.raises(Refused, match="says the same"):
        run("optimal", "--compute", "1e22", "--unique-tokens", "1B", "--corpus", "1GB", "--bytes-per-token", "4")
    with pytest.raises(Refused, match=r"--params: expected compute, .* or --corpus, found"):
        run("optimal", "--params", "1B", "--corpus", "1GB", "--bytes-per-token", "4")
    with pytest.raises(Refused, match="--corpus beside it"):
        run("optimal", "--compute", "1e22", "--bytes-per-token", "4")


def test_losses_of_a_corpus() -> None:
    words = ("--params", "1B", "--corpus", "20e9 words", "--tokens-per-word", "1.5")
    (once,) = records("loss", *words)
    assert (once["tokens"], once["corpus_epochs"], once["warnings"]) == (30e9, 1, [])
    (often,) = records("loss", *words, "--tokens", "120e9")
    assert often["corpus_epochs"] == 4
    assert "fresh ones" in str(often["warnings"])
    (known,) = records("loss", *words, "--tokens", "120e9", "--law", "muennighoff")
    (plain,) = records("loss", "--params", "1B", "--tokens", "120e9", "--unique-tokens", "30e9", "--law", "muennighoff")
    assert known["loss"] == plain["loss"]
    assert known["warnings"] == plain["warnings"]
