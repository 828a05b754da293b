"""Training: merge the most frequent pair of neighbours, again and again (Gage 1994; Sennrich et al. 2016)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from reference_models.tokenizer.vocabulary import Pair, Vocabulary


def pair_counts(words: Mapping[tuple[int, ...], int]) -> Counter[Pair]:
    """How often each two neighbours occur in words that occur so often; the pairs of "aaa" overlap and are two."""
    counts: Counter[Pair] = Counter()
    for word, times in words.items():
        for pair in pairwise(word):
            counts[pair] += times
    return counts


def merge(word: Sequence[int], pair: Pair, token: int) -> tuple[int, ...]:
    """`word` with `token` for each `pair`, from the left: "aaa" becomes (aa)a."""
    merged: list[int] = []
    i = 0
    while i < len(word):
        if tuple(word[i : i + 2]) == pair:
            merged.append(token)
            i += 2
        else:
            merged.append(word[i])
            i += 1
    return tuple(merged)


def train(pieces: Iterable[Sequence[int]], vocab_size: int, n_symbols: int = 256) -> Vocabulary:
    """The vocabulary of at most `vocab_size` tokens for pieces of symbols; smaller if no pair is left to merge.

    Pairs as frequent as each other are taken by their ids, lower first: the order in which the lecture notes go on
    from "ZabdZabac". Pairs are counted inside pieces only: no token spans a cut of the pre-tokenization. Every merge
    counts all pairs anew, which is the definition and not the fast way.
    """
    words = Counter(map(tuple, pieces))
    vocabulary = Vocabulary(n_symbols)
    while len(vocabulary) < vocab_size:
        counts = pair_counts(words)
        if not counts:
            break
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        token = vocabulary.add(best)
        replaced: Counter[tuple[int, ...]] = Counter()
        for word, times in words.items():
            replaced[merge(word, best, token)] += times
        words = replaced
    return vocabulary
