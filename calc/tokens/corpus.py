"""A corpus in bytes or words as tokens of a tokenizer, and how often a run goes through it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from calc.errors import Refused
from calc.tokens.counting import Tally, count_file
from calc.tokens.encoders import load_encoder
from calc.units import parse_amount, parse_bytes, si


@dataclass(frozen=True, slots=True)
class Corpus:
    """Unique tokens of a corpus. amount: of `unit`, bytes or words. ratio: bytes a token, or tokens a word."""

    amount: float
    unit: str
    ratio: float

    @property
    def tokens(self) -> float:
        return self.amount / self.ratio if self.unit == "bytes" else self.amount * self.ratio

    def epochs(self, tokens: float) -> float:
        """How often so many tokens of training go through it; below 1, what part of it they are."""
        return tokens / self.tokens

    @property
    def in_words(self) -> str:
        """The conversion in words."""
        ratio = f"{self.ratio:.4g} bytes a token" if self.unit == "bytes" else f"{self.ratio:.4g} tokens a word"
        amount = si(self.amount, "B") if self.unit == "bytes" else f"{si(self.amount)} words"
        return f"{amount} at {ratio}"


def corpus(
    size: str,
    *,
    bytes_per_token: float | None = None,
    tokens_per_word: float | None = None,
    tokenizer: str | None = None,
    sample: str | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Corpus:
    """The corpus that "4.5 TB" or "300e9 words" is, with one way to make tokens of it.

    bytes_per_token, tokens_per_word: the ratio; or tokenizer: a file (`load_encoder`) that is put to a sample, a file
    of like text, to measure it.
    Errors: Refused for another size, no ratio or two of them, and as `load_encoder` and `count_file`.
    """
    amount, unit = _size(size)
    ways = {"--bytes-per-token": bytes_per_token, "--tokens-per-word": tokens_per_word, "--tokenizer": tokenizer}
    given = [name for name, value in ways.items() if value is not None]
    fitting = "--bytes-per-token" if unit == "bytes" else "--tokens-per-word"
    if len(given) != 1 or given[0] not in (fitting, "--tokenizer"):
        raise Refused("--corpus", f"{fitting}, or --tokenizer with --sample, for {unit}", " and ".join(given) or "none")
    if (tokenizer is None) != (sample is None):
        raise Refused("--sample", "a file of like text beside --tokenizer, and only there", sample or "none")
    if tokenizer is None or sample is None:
        return Corpus(amount, unit, float(bytes_per_token or tokens_per_word or 0))
    tally = Tally(sample)
    count_file(tally, load_encoder(tokenizer), progress)
    if not tally.tokens or not tally.n_words:
        raise Refused("--sample", "a file with words", sample)
    return Corpus(amount, unit, tally.n_bytes / tally.tokens if unit == "bytes" else tally.tokens / tally.n_words)


def _size(text: str) -> tuple[float, str]:
    """An amount and its unit."""
    words = re.fullmatch(r"(.*\S)\s*words?", text.strip())
    amount = float(parse_amount(words[1], "tokens", "--corpus") if words else parse_bytes(text, "--corpus"))
    if amount <= 0:
        raise Refused("--corpus", "bytes or words above 0", text)
    return amount, "words" if words else "bytes"
