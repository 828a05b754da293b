"""Counts of files: what is read, what is refused, and how far an interrupted count says it came."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc.errors import Refused
from calc.tokens import streaming
from calc.tokens.boundaries import Cuts
from calc.tokens.counting import Tally, count_file
from calc.tokens.encoders import LibraryEncoder, from_description, load_encoder
from calc.tokens.patterns import patterns
from reference_models.tokenizer import PATTERNS
from tests.tokens.pipelines import CORPUS, described, encoder, ranks

GPT4 = "gpt4-2"


def counted(path: Path, tokenizer: Any) -> Tally:
    tally = Tally(str(path))
    count_file(tally, tokenizer)
    return tally


@settings(max_examples=60, deadline=None)
@given(
    data=st.one_of(
        st.binary(), st.text().map(str.encode), st.lists(st.sampled_from(CORPUS)).map("".join).map(str.encode)
    )
)
def test_any_file(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Bytes that are not UTF-8 count as U+FFFD; nothing depends on how much is read at once."""
    path = tmp_path_factory.getbasetemp() / "any.txt"
    path.write_bytes(data)
    if b"\0" in data[:8192]:
        with pytest.raises(Refused, match="a binary file"):
            counted(path, encoder(GPT4))
        return
    text = data.decode("utf-8", "replace")
    expected = Tally(
        str(path), len(data), len(data), len(encoder(GPT4).library.encode(text).ids), len(text.split()),
        text.count("\ufffd") - data.count(b"\xef\xbf\xbd"),
    )  # fmt: skip
    for block in (1, 7, 2**20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(streaming, "BLOCK", block)
            tally = counted(path, encoder(GPT4))
        assert tally == expected if data else (tally.tokens, tally.size) == (0, 0)


def test_a_file_of_several_blocks(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    text = "".join(CORPUS) * 2100
    path.write_text(text, newline="")
    assert path.stat().st_size > 2 * streaming.BLOCK
    for name in (GPT4, "front", "bert"):
        tokenizer = encoder(name)
        assert counted(path, tokenizer).tokens == len(tokenizer.library.encode(text, add_special_tokens=False).ids)
    plain = counted(path, 4.0)
    assert (plain.tokens, plain.n_words) == (round(path.stat().st_size / 4), len(text.split()))


def test_one_huge_line(tmp_path: Path) -> None:
    path = tmp_path / "line.txt"
    path.write_text("lazy dogs, they " * 150_000)
    tokenizer = encoder(GPT4)
    assert counted(path, tokenizer).tokens == len(tokenizer.library.encode(path.read_text()).ids)


def test_settings_that_would_change_a_count_are_off() -> None:
    """A tokenizer.json may cut text short, fill it up, merge by chance, or put tokens around it."""
    plain = encoder(GPT4)
    library = type(plain.library).from_str(described(GPT4))
    library.enable_truncation(3)
    library.enable_padding(length=50)
    library.model.dropout = 0.5
    changed = from_description(library.to_str(), "x.json")
    assert changed.count(CORPUS) == plain.count(CORPUS)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "{", r"expected JSON, found line 1"),
        ("a.json", "[]", "a JSON object"),
        ("a.json", "{}", "a tokenizer.json with a model"),
        ("a.json", '{"model": {"type": "BPE", "vocab": 3}}', "that the tokenizers library reads"),
        ("cl100k_base.tiktoken", "YQ== 0\nYQ", "line 2: expected a token in base64 and its rank"),
        ("cl100k_base.tiktoken", "YQ== 0\nYg== 0", "each once"),
        ("cl100k_base.tiktoken", "YQ== 0\n", "each of the 256 bytes"),
        ("mine.tiktoken", "", "--pattern: expected one of gpt2, gpt4, qwen2, gpt4o"),
        ("a.model", "", "a tokenizer.json or a .tiktoken file"),
    ],
)
def test_broken_tokenizers(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(Refused, match=message):
        load_encoder(path)


def test_ranks_of_any_name_with_a_pattern(tmp_path: Path) -> None:
    path = tmp_path / "mine.tiktoken"
    path.write_text(ranks())
    found = load_encoder(path, "gpt4")
    assert found.vocab_size == len(ranks().splitlines())
    assert found.count(["199", "1999"]) != [1, 1]
    with pytest.raises(Refused, match="gpt5"):
        load_encoder(path, "gpt5")


def test_patterns_are_the_published_ones() -> None:
    """Against the tiktoken library's own, and against those of our explanation."""
    import inspect

    from tiktoken_ext import openai_public

    fast = [each for each in patterns() if "tiktoken 0.14" in each.source]
    source = inspect.getsource(openai_public)
    assert {each.name for each in fast} == {"gpt2", "gpt4", "gpt4o"}
    for each in fast:
        assert all(
            part in source
            for part in (each.splits[0].split("|\\s*[\\r\\n]")[0].split("|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}")[0],)
        )
    assert {PATTERNS["gpt2"], PATTERNS["gpt4"]} <= {each.splits[0] for each in patterns()}


def test_a_file_that_cannot_be_read() -> None:
    """Its first page of memory, which nobody may read, root included."""
    with pytest.raises(Refused, match=r"/proc/self/mem: expected a (text file|file that can be read)"):
        counted(Path("/proc/self/mem"), 4.0)


class Interrupted:
    """A real tokenizer, at whose second batch Ctrl-C is pressed."""

    def __init__(self, inner: LibraryEncoder) -> None:
        self.inner, self.calls = inner, 0
        self.name, self.vocab_size, self.cuts = inner.name, inner.vocab_size, inner.cuts

    def count(self, texts: Sequence[str]) -> list[int]:
        self.calls += 1
        if self.calls == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return self.inner.count(texts)


def test_ctrl_c_says_how_far_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from calc import cli
    from calc.cli import tokens

    path = tmp_path / "text.txt"
    path.write_text("lazy dogs " * 300_000)
    assert isinstance(encoder(GPT4).cuts, Cuts)
    monkeypatch.setattr(tokens, "load_encoder", lambda *_: Interrupted(encoder(GPT4)))
    monkeypatch.setattr("sys.argv", ["envelope", "tokens", str(path), "--tokenizer", "x.json"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 130
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == "error: interrupted"
    assert "1,048,576 of 3,000,000 bytes" in said[0]
    assert "0 of 1 files whole" in said[0]
