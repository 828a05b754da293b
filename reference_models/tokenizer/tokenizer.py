"""A trained tokenizer: text or bytes in, token ids out, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Self

from reference_models.tokenizer.pattern import PATTERNS, pre_tokenize
from reference_models.tokenizer.training import merge, train
from reference_models.tokenizer.vocabulary import Pair, Vocabulary

N_BYTES = 256


class Tokenizer:
    """Byte-level byte-pair encoding (Radford et al. 2019, section 2.2).

    Ids 0 to 255 are the bytes; behind them what merges join; special tokens come last, in their order.
    merges: pairs of ids, the earliest first. pattern: see `pattern.PATTERNS`; None merges across the whole text.
    special: texts that are one token each wherever they stand and that no merge looks into.
    Errors: ValueError for a merge of a token that does not exist yet, and for empty or repeated special tokens.
    """

    def __init__(
        self, merges: Iterable[Pair], pattern: str | None = PATTERNS["gpt2"], special: Sequence[str] = ()
    ) -> None:
        if len({*special}) < len(special) or "" in special:
            raise ValueError(f"special tokens: expected distinct texts, found {list(special)}")
        self.vocabulary = Vocabulary(N_BYTES, merges)
        self.pattern = pattern
        self.special = {text: len(self.vocabulary) + i for i, text in enumerate(special)}
        self._bytes = [*map(bytes, self.vocabulary.spellings), *(text.encode() for text in special)]

    @classmethod
    def trained(
        cls, texts: Iterable[str], vocab_size: int, pattern: str | None = PATTERNS["gpt2"], special: Sequence[str] = ()
    ) -> Self:
        """Trained on `texts` to at most `vocab_size` tokens, bytes and special ones among them.

        Errors: ValueError where that is less than the bytes and special tokens.
        """
        least = N_BYTES + len(special)
        if vocab_size < least:
            raise ValueError(f"vocab_size: expected at least {least}, found {vocab_size}")
        pieces = (piece.encode() for text in texts for piece in pre_tokenize(text, pattern))
        return cls(train(pieces, vocab_size - len(special)).merges, pattern, special)

    @property
    def vocab_size(self) -> int:
        """Tokens that there are: the longest row of an embedding table that they need."""
        return len(self._bytes)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text. Errors: UnicodeEncodeError for lone surrogates, which are no text."""
        text.encode()
        return self._encode(text)

    def encode_bytes(self, data: bytes) -> list[int]:
        """Token ids of any bytes; `decode_bytes` gives the very same bytes back.

        A byte that is not UTF-8 meets the pattern as a sign that is neither letter, digit nor space.
        """
        return self._encode(data.decode("utf-8", "surrogateescape"))

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes of tokens. Errors: ValueError for an id that there is not."""
        found = list(ids)
        if not all(0 <= token < self.vocab_size for token in found):
            raise ValueError(f"tokens: expected ids from 0 to {self.vocab_size - 1}")
        return b"".join(self._bytes[token] for token in found)

    def decode(self, ids: Iterable[int], errors: str = "replace") -> str:
        """The text of tokens; bytes that are not UTF-8, as of half a character, become U+FFFD.

        errors: "strict" raises UnicodeDecodeError instead. Errors: as `decode_bytes`.
        """
        return self.decode_bytes(ids).decode("utf-8", errors)

    def _encode(self, text: str) -> list[int]:
        """Special tokens are looked for first, from the left, the longest where several begin."""
        ids: list[int] = []
        start = 0
        while start < len(text):
            at, name = self._next_special(text, start)
            for piece in pre_tokenize(text[start:at], self.pattern):
                ids += self._merged(piece.encode("utf-8", "surrogateescape"))
            ids += [self.special[name]] if name else []
            start = at + len(name)
        return ids

    def _next_special(self, text: str, start: int) -> tuple[int, str]:
        """Where the next special token stands and which it is; the end of the text, and none, where there is none."""
        found = ((text.find(name, start), -len(name), name) for name in self.special)
        at, _, name = min((each for each in found if each[0] >= 0), default=(len(text), 0, ""))
        return at, name

    def _merged(self, piece: bytes) -> tuple[int, ...]:
        """A piece as tokens: of all pairs, the one that was learned first is merged first, until none is left."""
        ranks, joined = self.vocabulary.ranks, self.vocabulary.joined
        word = tuple(piece)
        while len(word) > 1:
            pair = min(pairwise(word), key=lambda each: ranks.get(each, len(ranks)))
            if pair not in ranks:
                break
            word = merge(word, pair, joined[pair])
        return word
