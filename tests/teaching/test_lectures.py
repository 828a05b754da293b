"""The lecture notes' claims, each with the verdict that its argument earns."""

from __future__ import annotations

import pytest

from calc.teaching.claim import Claim
from calc.teaching.lectures import CLAIMS

EXPECTED = {
    "BERT base has 110M parameters": (109_482_240, "confirmed"),
    "BERT large has 340M parameters": (335_141_888, "rounded"),
    "a 224 px image is a sequence of 50k pixels": (50_176, "confirmed"),
    "cut into patches of 16 px it is 196 tokens": (196, "confirmed"),
    "Transformer base cost 3.3e18 FLOP to train (GPU-time)": (3.2832e18, "confirmed"),
    "Transformer big cost 2.3e19 FLOP to train (GPU-time)": (2.29824e19, "confirmed"),
}
CLAIMED = {claim.claim: claim for claim in CLAIMS}


@pytest.mark.parametrize("says", EXPECTED)
def test_numbers(says: str) -> None:
    claim = CLAIMED[says]
    value, verdict = EXPECTED[says]
    assert claim.value is not None
    assert claim.value() == value
    assert claim.verdict == verdict


def test_gpu_time_is_more_than_the_products_by_a_plausible_utilization() -> None:
    """An estimate that takes P100s as fully used must exceed the products, by no more than a factor of five."""
    for model in ("base", "big"):
        claim = next(c for c in CLAIMS if f"products of training {model}" in c.claim)
        assert claim.value is not None
        assert claim.printed is not None
        assert 0.2 < claim.value() / claim.printed < 0.6
        assert claim.verdict == "wrong"


def test_mistakes_of_the_notes_are_named_with_their_source() -> None:
    wrong = " ".join(claim.claim + claim.why for claim in CLAIMS if claim.verdict == "wrong")
    for word in ("d_input", "SRAM", "Shaw et al. 2018", "aaabdaaaabac", "199 + 9", "100,276"):
        assert word in wrong


def test_the_verdict_follows_the_difference() -> None:
    def verdict(printed: float, computed: float) -> str:
        return Claim(1, "", "", printed, 2, lambda: computed).verdict

    assert [verdict(100, x) for x in (100, 100.9, 103, 104.9, 90, 110)] == [
        "confirmed", "confirmed", "rounded", "rounded", "wrong", "wrong",
    ]  # fmt: skip
