"""Tokens of parts are tokens of the whole, wherever a text may be cut."""

from __future__ import annotations

import io
import json
import sys
import unicodedata
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calc.errors import Refused
from calc.tokens import streaming
from calc.tokens.boundaries import OPEN, Cuts, cuts_of
from calc.tokens.encoders import load_encoder
from tests.tokens.pipelines import CORPUS, PIPELINES, described, encoder, ranks

PIECES = [
    *" \n\t\r.,\"'/<>|_-aZ19é大，。🙂½⒈㈠İ\u0301\u00a0\u2028\u3000",
    "  ",
    "\n\n",
    "s",
    "'ll",
    "▁",
    "ﬁ",
    "x\n",
    "1\n",
]
text = st.one_of(
    st.lists(st.sampled_from([*PIECES, "<|end|>", "<mask>", "   ", "the", "dogs", "return"]), max_size=40).map("".join),
    st.text(max_size=40),
    st.lists(st.sampled_from(CORPUS), max_size=3).map("".join),
)


def parts(whole: str, cuts: Cuts | None, monkeypatch: pytest.MonkeyPatch, part: int, block: int) -> list[str]:
    monkeypatch.setattr(streaming, "PART", part)
    monkeypatch.setattr(streaming, "BLOCK", block)
    return [each for batch in streaming.batches(io.BytesIO(whole.encode()), "x", cuts) for each in batch.texts]


@pytest.mark.parametrize("name", PIPELINES)
@settings(max_examples=150, deadline=None)
@example(whole="a ", part=1, block=1)
@example(whole="a <|end|> a<mask> b", part=1, block=1)
@given(whole=text, part=st.integers(1, 9), block=st.integers(1, 30))
def test_parts_have_the_tokens_of_the_whole(name: str, whole: str, part: int, block: int) -> None:
    tokenizer = encoder(name)
    assert tokenizer.cuts is not None
    with pytest.MonkeyPatch.context() as patch:
        cut = parts(whole, tokenizer.cuts, patch, part, block)
    if not tokenizer.cuts.drops_space:
        assert "".join(cut) == whole
    ids = [e.ids for e in tokenizer.library.encode_batch(cut, add_special_tokens=False)]
    assert [*chain(*ids)] == tokenizer.library.encode(whole, add_special_tokens=False).ids
    assert tokenizer.count(cut) == list(map(len, ids))


@pytest.mark.parametrize("stem", ["r50k_base", "cl100k_base", "o200k_base"])
@settings(max_examples=150, deadline=None)
@given(whole=text, part=st.integers(1, 9), block=st.integers(1, 30))
def test_parts_of_ranks(stem: str, whole: str, part: int, block: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    tokenizer: Any = _of_ranks(tmp_path_factory.getbasetemp() / f"{stem}.tiktoken")
    with pytest.MonkeyPatch.context() as patch:
        cut = parts(whole, tokenizer.cuts, patch, part, block)
    assert [*chain(*map(tokenizer.library.encode_ordinary, cut))] == tokenizer.library.encode_ordinary(whole)
    assert sum(tokenizer.count(cut)) == len(tokenizer.library.encode_ordinary(whole))


@cache
def _of_ranks(path: Path) -> Any:
    path.write_text(ranks())
    return load_encoder(path)


def test_there_are_cuts_in_ordinary_text() -> None:
    """Or the tests above would hold of a text that is never cut."""
    with pytest.MonkeyPatch.context() as patch:
        for name in PIPELINES:
            assert len(parts("".join(CORPUS), encoder(name).cuts, patch, 1, 50)) > 20, name


def test_letters_and_digits_are_unicodes() -> None:
    r"""What `[^\W_]` meets is of the categories L and N, whitespace is Unicode's: the argument rests on both."""
    for point in range(sys.maxunicode + 1):
        sign = chr(point)
        if sign.isalnum():
            assert unicodedata.category(sign)[0] in "LN", hex(point)
        if unicodedata.category(sign)[0] == "Z":
            assert sign.isspace(), hex(point)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated"}}, "unknown"),
        ({"pre_tokenizer": None}, "merges across everything, and its vocabulary has no mark"),
        ({"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}}, "ends of every part"),
        ({"normalizer": {"type": "StripAccents"}}, "takes signs away ahead of a pattern"),
        ({"added_tokens": [{"content": "a b", "lstrip": False, "rstrip": False}]}, "a cut inside"),
        ({"added_tokens": [{"content": "tail", "lstrip": False, "rstrip": True}]}, "takes in what is behind the cut"),
    ],
)  # fmt: skip
def test_what_is_not_known_to_be_safe_is_not_cut(changed: dict[str, Any], why: str) -> None:
    description = json.loads(described("level"))
    assert cuts_of(description) == OPEN
    assert cuts_of(description | changed) is None, why


def test_added_spaces_where_normalizing_makes_spaces() -> None:
    """BERT's puts one on either side of 大, which with the next two would be an added token of three."""
    description = json.loads(described("bert"))
    added = {"content": "   ", "lstrip": False, "rstrip": False, "normalized": True}
    assert cuts_of(description) is not None
    assert cuts_of(description | {"added_tokens": [added]}) is None


def test_a_token_over_a_space_forbids_cuts() -> None:
    description = json.loads(described("front"))
    description["model"]["vocab"]["o▁w"] = 10**6
    assert cuts_of(description) is None


def test_text_without_a_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "UNBROKEN", 1000)
    monkeypatch.setattr(streaming, "BLOCK", 100)
    assert parts("." * 1000, OPEN, monkeypatch, 10, 100) == ["." * 1000]
    with pytest.raises(Refused, match="a place to cut"):
        parts("." * 1001, OPEN, monkeypatch, 10, 100)
    with pytest.raises(Refused, match="unknown cuts"):
        parts("a b" * 1001, None, monkeypatch, 10, 100)
