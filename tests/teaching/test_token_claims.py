"""The counts that the claims of tokens are held against, counted again."""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from calc.reading.files import parse_toml
from calc.teaching.lectures import CLAIMS
from calc.teaching.token_claims import RECORDED
from calc.tokens.encoders import load_encoder
from tests.reference_models.tokenizer.published import gpt2

FACTS = parse_toml(RECORDED.read_text(), str(RECORDED))
GPT4 = Path(__file__).parent / "vocabularies" / "cl100k_base.tiktoken"
"""Of OpenAI's file (SHA-256 in the facts) the ranks of single bytes and of every token that stands in one of the
texts: merging pairs of these texts can ask for no other."""
CLAIMED = {claim.claim: claim for claim in CLAIMS}
ASSIGNED = {"14.0": 144_697, "15.0": 149_186, "15.1": 149_813, "16.0": 154_998, "17.0": 159_801}
"""Version -> characters, as the pages of the versions of Unicode at unicode.org print them."""


@pytest.mark.parametrize("text", FACTS["tokens"], ids=lambda text: text["name"])
def test_tokens_are_counted(text: dict[str, Any]) -> None:
    ours, _ = gpt2()
    if "gpt2" in text:
        assert len(ours.encode(text["text"])) == text["gpt2"]
    if "gpt4" in text:
        assert load_encoder(GPT4).count([text["text"]]) == [text["gpt4"]]


def test_digits_of_gpt4_are_cut_from_the_left() -> None:
    assert CLAIMED["GPT-4 makes 19 + 99 of 1999"].verdict == "wrong"
    assert load_encoder(GPT4).count(["1999", "199", "9"]) == [2, 1, 1]


def test_characters_are_counted_as_unicode_counts_them() -> None:
    """Graphic and format characters: for the version that this Python knows, the count that its page prints."""
    others = {"Cn", "Cs", "Co", "Cc"}  # not assigned, surrogates, private use, controls
    assigned = sum(unicodedata.category(chr(code)) not in others for code in range(sys.maxunicode + 1))
    assert assigned == ASSIGNED[unicodedata.unidata_version.removesuffix(".0")]
    assert FACTS["unicode"]["characters"] == ASSIGNED[FACTS["unicode"]["version"]]


def test_verdicts_follow_the_records() -> None:
    recorded = {claim.claim: claim for claim in CLAIMS if claim.recorded is not None}
    assert {says for says, claim in recorded.items() if claim.verdict == "wrong"} == {
        "'Hello everyone, … 11-X85 class!': 15 tokens of GPT-2"
    }
    assert len(recorded) == 7
    assert all(claim.value is None for claim in recorded.values())
