"""Our byte-level BPE against the `tokenizers` library, and round trips of anything."""

from __future__ import annotations

import unicodedata
from functools import cache

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Library

from reference_models.tokenizer import PATTERNS, Tokenizer, pre_tokenize
from tests.reference_models.tokenizer.published import gpt2, gpt2_ids, in_library

CORPUS = [
    "The quick brown fox doesn't jump over 1,234 lazy dogs; they're asleep, I'm told.\n\n",
    "def f(x):\n    if x > 10:\n        return 1999\n    return f(x + 1)\n",
    "Größe, naïve café, 大家好，欢迎来到这里。Привет мир! 🙂🙂👍🏽 \u0301e\u0301 ﷽ 𝒳𝒴 \t\r\n  ",
]
SPECIAL = ("<|endoftext|>", "<|end|>")


@cache
def trained(pattern: str | None) -> Tokenizer:
    return Tokenizer.trained(CORPUS * 3, 420, pattern, SPECIAL)


plane = st.integers(0, 16).flatmap(lambda n: st.integers(n << 16, (n << 16) + 0xFFFF))
"""Every plane of Unicode as often as the others; drawn alone, most characters would be of unassigned ones."""
drawn = st.one_of(
    st.text(),
    st.lists(plane.map(chr).filter(lambda c: unicodedata.category(c) != "Cs")).map("".join),
    st.lists(st.sampled_from([*" \n\t\r's.1aZ,<|é大🙂", *SPECIAL, "'LL", "  ", "endoftext", "2024", *CORPUS])).map(
        "".join
    ),
)


def settled(text: str) -> bool:
    """Whether no letter, digit or space is newer than Python's Unicode: `regex` and the library have other versions."""
    return not any(unicodedata.category(c) == "Cn" and regex.match(r"[\p{L}\p{N}\s]", c) for c in text)


any_text = drawn.filter(settled)


@pytest.mark.parametrize("pattern", [*PATTERNS.values(), None], ids=[*PATTERNS, "none"])
@settings(deadline=None)
@given(text=any_text)
def test_ids_are_the_librarys(pattern: str | None, text: str) -> None:
    ours = trained(pattern)
    ids = ours.encode(text)
    assert ids == in_library(ours).encode(text).ids
    assert ours.decode(ids, errors="strict") == text


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
@settings(deadline=None)
@given(text=any_text)
def test_pieces_are_the_librarys(pattern: str, text: str) -> None:
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    assert pre_tokenize(text, pattern) == [piece for piece, _ in split.pre_tokenize_str(text)]


@settings(deadline=None)
@given(data=st.one_of(st.binary(), any_text.map(str.encode).flatmap(lambda b: st.just(b[: len(b) // 2]))))
def test_any_bytes_come_back(data: bytes) -> None:
    """And where they are UTF-8, or are read as the library must have them, the ids are the same."""
    ours = trained(PATTERNS["gpt4"])
    assert ours.decode_bytes(ours.encode_bytes(data)) == data
    text = data.decode("utf-8", "replace")
    assert ours.encode_bytes(text.encode()) == in_library(ours).encode(text).ids
    assert ours.decode(ours.encode_bytes(data)) == text


@settings(deadline=None)
@given(st.lists(st.integers(0, 421)))
def test_any_ids_decode(ids: list[int]) -> None:
    ours = trained(PATTERNS["gpt2"])
    kept = [token for token in ids if token < ours.vocab_size]
    assert ours.decode(kept) == ours.decode_bytes(kept).decode(errors="replace")


def test_nothing_and_one_huge_line() -> None:
    ours = trained(PATTERNS["gpt4"])
    assert ours.encode("") == ours.encode_bytes(b"") == []
    line = " ".join(CORPUS).replace("\n", " ").replace("\r", " ") * 200 + "a" * 3000
    assert ours.encode(line) == in_library(ours).encode(line).ids
    assert ours.decode(ours.encode(line)) == line


def test_gpt2s_own_ids() -> None:
    """Ids that OpenAI's encoder gives, from the model cards' example and its table: 'Hello world' is 15496, 995."""
    assert gpt2_ids("Hello world") == [15496, 995]
    ours, table = gpt2()
    assert len(ours.vocabulary) == 50_256 == len(table) - 1
    assert gpt2_ids("\n\n") == [628]


@settings(deadline=None)
@given(st.lists(st.text("abc", min_size=1), min_size=1))
def test_training_is_the_librarys(words: list[str]) -> None:
    """Merges in the same order; the library's ids are in our order over these letters."""
    ours = Tokenizer.trained(words, 266, PATTERNS["gpt2"])
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
    trainer = trainers.BpeTrainer(
        vocab_size=266, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    library.train_from_iterator(words, trainer)
    theirs = library.get_vocab()
    spelled = {bytes(spelling).decode("latin-1") for spelling in ours.vocabulary.spellings[256:]}
    assert spelled == {text for text, token in theirs.items() if token >= 256}


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="below 256"):
        Tokenizer([(97, 256)])
    with pytest.raises(ValueError, match="each merge once"):
        Tokenizer([(97, 97), (97, 97)])
    with pytest.raises(ValueError, match="distinct"):
        Tokenizer([], special=("a", "a"))
    with pytest.raises(ValueError, match="at least 257"):
        Tokenizer.trained([], 256, special=("<s>",))
    with pytest.raises(ValueError, match="from 0 to 255"):
        Tokenizer([]).decode([256])
    with pytest.raises(UnicodeEncodeError):
        Tokenizer([]).encode("\ud800")
