"""Seconds between the tokens of a sequence: most of them a step, longer where prompts of others or a lack of room came
between."""

from __future__ import annotations

from calc.serve.running import Running


class Gaps:
    """seen: seconds between two tokens of a sequence, or the tokens of two steps where several are accepted, each with
    how many there were. latest: when those that decode got their last token, but for `fresh` ones, of which each knows
    its own."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, int]] = []
        self.latest = 0.0
        self.fresh: list[Running] = []

    def begin(self, one: Running) -> None:
        """A sequence decodes from now on; it got its last token at a time of its own."""
        self.fresh.append(one)

    def passed(self, now: float, count: int, each: float, decoding: int) -> None:
        """So many steps of `each` seconds have passed for so many sequences: the first of them ends what everyone
        waited for its next token, in steps of others' prompts too."""
        came, old = now - (count - 1) * each, decoding - len(self.fresh)
        self.seen += [(came - one.latest, 1) for one in self.fresh]
        if old:
            self.seen.append((came - self.latest, old))
        if count > 1:
            self.seen.append((each, (count - 1) * decoding))
        self.latest = now
        self.fresh.clear()

    def give_way(self, one: Running) -> None:
        """A sequence decodes no more, and waits for its next token until it is read again."""
        if one in self.fresh:
            self.fresh.remove(one)
        else:
            one.latest = self.latest

    def again(self, one: Running, now: float) -> None:
        """A sequence got a token by being read again."""
        self.seen.append((now - one.latest, 1))
