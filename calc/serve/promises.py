"""Room that an engine keeps for answers to come, before it lets another request in."""

from __future__ import annotations

import math
from collections.abc import Iterable

from calc.serve.decoding import Decoding
from calc.serve.running import Rules, Running
from calc.spec.run.engines import Admission


class Promises:
    """What is promised to sequences that run: a part of what each has still to make, which falls from step to step as
    far as the engine's does, and is set anew where one had to give way. part: now."""

    def __init__(self, rules: Rules, admission: Admission) -> None:
        self.rules, self.admission = rules, admission
        self.part = admission.part

    @property
    def falls(self) -> bool:
        """Whether further steps leave more room for others."""
        return self.part > self.admission.least

    def rest(self) -> None:
        """The server has nothing to do."""
        self.part = self.admission.part

    def passed(self, steps: int) -> None:
        """So many steps gave every sequence a token."""
        rule = self.admission
        if rule.steps:
            self.part = max(self.part - steps * (rule.part - rule.least) / rule.steps, rule.least)

    def gave_way(self, count: int, made: float, left: float) -> None:
        """One gave up its cache; so many are left, which have made so many tokens of their answers and have others to
        make: each may make as large a part as they have in the mean, and `ahead` tokens more."""
        self.part = min((made + self.admission.ahead * count) / (made + left + 1), 1.0)

    def pages(self, left: float) -> int:
        """Pages that are promised to sequences with so many tokens to make between them."""
        return math.ceil(self.part * left / self.rules.block)

    def to_all(self, read: Iterable[Running], decoding: Decoding, longest: int) -> int:
        """Pages that are promised to sequences whose prompts are read and to those that decode. longest: tokens of an
        answer, at most."""
        rules = self.rules
        left: float = sum(rules.pages(self.whole(one)) * rules.block - one.prompt - 1 for one in read)
        if longest <= self.admission.most:
            left += decoding.left
        else:
            now = decoding.steps
            left += sum(self.counted(one.end - one.tokens(now, rules.accepted)) for _, _, one in decoding.heap)
        return self.pages(left)

    def counted(self, left: int) -> int:
        """Tokens of an answer's rest that count."""
        return min(left, self.admission.most)

    def whole(self, one: Running) -> int:
        """Tokens for which one that is to be let in must find room."""
        return one.prompt + max(self.counted(one.left), 1)
