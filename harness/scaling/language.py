"""A language made up for small models: what can be learned of it has a long tail, so that losses fall as power laws.

A token follows the two before it by a mixture of three habits: how frequent it is (Zipf, exponent 1), what usually
follows the last token, and what usually follows the last two. Contexts are as frequent as their tokens, so that rare
ones go on being learned for as long as there are new tokens (n of them) and room (n parameters): each context seen is
one more piece of a Zipfian tail, which Hutter (arXiv:2102.04074) shows to give a power law in the data, and Michaud et
al. (arXiv:2303.13506) in the parameters. The entropy is known exactly for any text: it is what the language itself
gives to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Tokens = NDArray[np.int64]


@dataclass(frozen=True)
class Language:
    """What a language is made of; the same fields make the same one.

    vocab_size: tokens. one, two: how many tokens usually follow one token, and two. weights: of the three habits, in
    the order above; their sum is 1. seed: which tokens follow which.
    """

    vocab_size: int = 64
    one: int = 6
    two: int = 4
    weights: tuple[float, float, float] = (0.1, 0.6, 0.3)
    seed: int = 0
    _tables: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def text(self, sequences: int, seq: int, seed: int) -> Tokens:
        """[sequences, seq] tokens; the first two of a sequence have nothing before them."""
        import numpy as np

        tables, random = self._made(), np.random.default_rng([self.seed, 1, seed])
        out = np.empty((sequences, seq), dtype=np.int64)
        frequent = np.cumsum(tables["frequency"])
        for place in range(seq):
            usual = _drawn(frequent, random.random(sequences))
            if place < 2:
                out[:, place] = usual
                continue
            last, both = self._contexts(out, place)
            habit = _drawn(np.cumsum(self.weights), random.random(sequences))
            after_one = tables["one"][last, _drawn(np.cumsum(_zipf(self.one)), random.random(sequences))]
            after_two = tables["two"][both, _drawn(np.cumsum(_zipf(self.two)), random.random(sequences))]
            out[:, place] = np.choose(habit, (usual, after_one, after_two))
        return out

    def entropy(self, text: Tokens) -> float:
        """Nats a token that a model which knows the language loses on a text, its first token left out: the floor."""
        import numpy as np

        tables = self._made()
        lost = [-np.log(tables["frequency"][text[:, 1]])]
        for place in range(2, text.shape[1]):
            token = text[:, place]
            last, both = self._contexts(text, place)
            chance = self.weights[0] * tables["frequency"][token]
            for name, weight, context in (("one", self.weights[1], last), ("two", self.weights[2], both)):
                # A token may stand twice among those that follow: its chances add up.
                after = tables[name][context]
                chance = chance + weight * ((after == token[:, None]) * _zipf(after.shape[1])).sum(1)
            lost.append(-np.log(chance))
        return float(np.mean(lost))

    def unigram_entropy(self, text: Tokens) -> float:
        """Nats a token of a model that knows how frequent each token of the text is, and no more."""
        import numpy as np

        share = np.bincount(text[:, 1:].ravel(), minlength=self.vocab_size) / text[:, 1:].size
        return float(-(share[share > 0] * np.log(share[share > 0])).sum())

    def _contexts(self, text: Tokens, place: int) -> tuple[Tokens, Tokens]:
        return text[:, place - 1], text[:, place - 2] * self.vocab_size + text[:, place - 1]

    def _made(self) -> dict[str, Any]:
        """frequency [vocab_size]; one [vocab_size, one] and two [vocab_size^2, two]: what follows, likeliest first."""
        import numpy as np

        if not self._tables:
            random, frequency = np.random.default_rng([self.seed, 0]), _zipf(self.vocab_size)
            ends = np.cumsum(frequency)
            self._tables["frequency"] = frequency
            self._tables["one"] = _drawn(ends, random.random((self.vocab_size, self.one)))
            self._tables["two"] = _drawn(ends, random.random((self.vocab_size**2, self.two)))
        return self._tables


def _zipf(n: int) -> NDArray[np.float64]:
    """Chances of ranks 1 to n that fall as 1/rank."""
    import numpy as np

    weights = 1 / np.arange(1, n + 1)
    return weights / weights.sum()


def _drawn(ends: Any, chance: Any) -> Tokens:
    """Where numbers between 0 and 1 fall between the ends of shares; rounding may leave the last end below 1."""
    import numpy as np

    return np.minimum(np.searchsorted(ends, chance, side="right"), len(ends) - 1)
