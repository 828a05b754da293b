"""Vocabularies of several sizes from one training, and a corpus as tokens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import calc
from calc.errors import Refused
from calc.tokens.corpus import corpus
from calc.tokens.vocabularies import _trained, first_merges, read_sample, trade
from tests.reference import ROOT
from tests.tokens.pipelines import described

SOURCES = [str(path) for path in sorted((ROOT / "calc" / "cli").glob("*.py"))]


def test_a_small_vocabulary_is_the_beginning_of_a_large_one() -> None:
    texts = [*read_sample(SOURCES), "aaaaaaa aaaaa aaaaaaaaa " * 50]
    large = _trained(texts, 1500, "gpt4", False)
    for size in (1000, 600, 257):
        small = _trained(texts, size, "gpt4", False)
        first = first_merges(large, size)
        assert first["model"]["vocab"] == small["model"]["vocab"]
        assert first["model"]["merges"] == small["model"]["merges"]


def test_the_trade_off() -> None:
    spec = calc.load_model("gpt2")
    rows = trade(read_sample(SOURCES), 2048, spec, 512)
    assert [row.vocab_size for row in rows] == [2048, 1024, 512]
    assert rows[0].bytes_per_token > rows[1].bytes_per_token > rows[2].bytes_per_token > 1
    for row in rows:
        sized = calc.with_sizes(spec, {"vocab_size": row.vocab_size})
        assert row.params == calc.estimate(sized, "params").value
        assert row.vocab_params == row.vocab_size * 768
        assert row.head_flops == 2 * row.vocab_size * 768
        assert row.flops == calc.estimate(sized, "flops.forward", seq=512).value / 512
        assert row.flops_per_byte == row.flops / row.bytes_per_token


def test_samples_that_do_not_do(tmp_path: Path) -> None:
    path = tmp_path / "small.txt"
    path.write_text("a few words\n" * 100)
    with pytest.raises(Refused, match="40 kB"):
        read_sample([str(path)])
    with pytest.raises(Refused, match="all that this sample yields"):
        trade(["a few words"] * 20, 2048, calc.load_model("gpt2"), 512)
    with pytest.raises(Refused, match="at least 512"):
        trade(["a few words"] * 20, 256, calc.load_model("gpt2"), 512)


def test_a_corpus_by_its_ratio() -> None:
    found = corpus("4.2 GB", bytes_per_token=4.2)
    assert found.tokens == pytest.approx(1e9)
    assert found.epochs(3e9) == pytest.approx(3)
    assert corpus("2e9 words", tokens_per_word=1.3).tokens == pytest.approx(2.6e9)
    assert corpus("1 GiB", bytes_per_token=2).tokens == 2**29


def test_a_corpus_by_a_sample(tmp_path: Path) -> None:
    """A corpus that is the sample itself has exactly the sample's tokens."""
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text(described("gpt4-2"))
    sample = ROOT / "LICENSE"
    size = sample.stat().st_size
    from tests.tokens.pipelines import encoder

    (tokens,) = encoder("gpt4-2").count([sample.read_text()])
    words = len(sample.read_text().split())
    for asked in (f"{size}B", f"{words} words"):
        found = corpus(asked, tokenizer=str(tokenizer), sample=str(sample))
        assert found.tokens == pytest.approx(tokens, rel=1e-12)


@pytest.mark.parametrize(
    ("asked", "ways", "message"),
    [
        ("3", {"bytes_per_token": 4.0}, "bytes with its unit"),
        ("3 GB", {}, "--bytes-per-token, or --tokenizer with --sample, for bytes, found none"),
        ("3 GB", {"tokens_per_word": 1.0}, "for bytes, found --tokens-per-word"),
        ("3 words", {"bytes_per_token": 1.0}, "for words, found --bytes-per-token"),
        ("3 GB", {"tokenizer": "a.json"}, "--sample"),
        ("3 GB", {"bytes_per_token": 1.0, "sample": "a"}, "--sample"),
        ("0 words", {"tokens_per_word": 1.0}, "above 0"),
    ],
)
def test_corpora_that_are_refused(asked: str, ways: dict[str, float], message: str) -> None:
    with pytest.raises(Refused, match=message):
        corpus(asked, **ways)  # pyright: ignore[reportArgumentType]


def test_a_description_without_repeated_spellings_keeps_every_merge() -> None:
    description = json.loads(described("level"))
    assert first_merges(description, 10**6)["model"]["merges"] == description["model"]["merges"]
