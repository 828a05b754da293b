"""Tokens and the merges that make them."""

from __future__ import annotations

from collections.abc import Iterable

Pair = tuple[int, int]


class Vocabulary:
    """`n_symbols` symbols, ids from 0 on, and behind them the tokens that merges make, in their order.

    Two merges may spell one token, as (aa)a and a(aa) do: it keeps its first id.
    spellings: each token's symbols. ranks: a pair's place among the merges. joined: the token that it becomes.
    Errors: ValueError for a merge of a token that does not exist yet, and for a merge that is there already.
    """

    def __init__(self, n_symbols: int = 256, merges: Iterable[Pair] = ()) -> None:
        self.spellings: list[tuple[int, ...]] = [(symbol,) for symbol in range(n_symbols)]
        self.ranks: dict[Pair, int] = {}
        self.joined: dict[Pair, int] = {}
        self._ids = {spelling: token for token, spelling in enumerate(self.spellings)}
        for pair in merges:
            self.add(pair)

    def __len__(self) -> int:
        return len(self.spellings)

    @property
    def merges(self) -> list[Pair]:
        return list(self.ranks)

    def add(self, pair: Pair) -> int:
        """One more merge; the token that it makes."""
        if not all(0 <= token < len(self) for token in pair):
            raise ValueError(f"merge of {pair}: expected tokens below {len(self)}")
        if pair in self.ranks:
            raise ValueError(f"merge of {pair}: expected each merge once")
        spelling = self.spellings[pair[0]] + self.spellings[pair[1]]
        if spelling not in self._ids:
            self._ids[spelling] = len(self)
            self.spellings.append(spelling)
        self.ranks[pair] = len(self.ranks)
        self.joined[pair] = self._ids[spelling]
        return self.joined[pair]
