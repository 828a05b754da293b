"""A request inside a server, and the rules that a server goes by."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from calc.serve.requests import Request
from calc.spec.run.engines import Admission


@dataclass(slots=True)
class Running:
    """A request inside the server.

    prompt: tokens that must be read before its next one, generated ones too where it was preempted; read: of them,
    those that are; left: tokens still to come. begun, finish: steps of the server when it began and will end to decode.
    context: tokens in the cache when it began to decode. shared: blocks that others may read too. came: steps that the
    server had laid when it came. latest: when it got its last token, where that is not when all that decode did.
    """

    request: Request
    prompt: int
    read: int
    left: int
    begun: int = 0
    finish: int = 0
    context: int = 0
    shared: tuple[int, ...] = ()
    came: int = 0
    latest: float = 0.0

    @property
    def end(self) -> int:
        """Tokens that it will have in the cache when it has decoded its last."""
        return self.context + self.left

    def tokens(self, step: int, each: float) -> int:
        """Tokens that it has in the cache while it decodes; what a last step guesses beyond its end is not kept."""
        return self.context + min(math.ceil((step - self.begun) * each), self.left)


@dataclass(frozen=True, slots=True)
class Hold:
    """For how long prompts are held back while others decode: while a step with them had fewer tokens than `part` of
    its budget, or fewer prompts than `prompts` (one for each rank of attention), but no more than `steps` in a row; and
    once there are so many, for `further` ones."""

    steps: int
    part: float = 0.0
    prompts: int = 0
    further: int = 0


@dataclass(frozen=True, slots=True)
class Rules:
    """What a server goes by.

    budget: tokens of a step, in which all ranks of attention and all stages of a pipeline have a batch of their own.
    running: sequences at once. block: tokens of a page. blocks: pages that there are. mixed: whether prompts share
    steps with sequences that decode. chunked: whether a prompt is read in pieces. accepted: tokens that a sequence gets
    in a step. polls: steps of sequences that decode between two looks at who has come.
    ahead: whether the next step is laid while one runs, so that who comes meanwhile is let in a step later. admission:
    what is promised to who runs before another is let in. hold: for how long prompts wait for others to be read with.
    ranks: of attention, one of which reads a prompt.
    """

    budget: int
    running: int
    block: int
    blocks: int
    mixed: bool
    chunked: bool
    accepted: float = 1.0
    polls: int = 1
    ahead: bool = False
    admission: Admission | None = None
    hold: Hold | None = None
    ranks: int = 1

    def pages(self, tokens: int) -> int:
        """Pages for so many tokens."""
        return -(-tokens // self.block)


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens of one prompt that a step reads: the first of them stands behind `start` others. last: whether the prompt
    ends with it."""

    start: int
    tokens: int
    last: bool


def pieces_of(reading: Iterable[Running], rules: Rules, left: int) -> list[tuple[Running, Piece]]:
    """What a step with room for so many tokens reads of these prompts, first come first served."""
    found = list[tuple[Running, Piece]]()
    own = left // rules.ranks
    for one in reading:
        rest = one.prompt - one.read
        if left <= 0 or (not rules.chunked and found and rest > left):
            break
        now = min(rest, left, own) if rules.chunked else rest
        found.append((one, Piece(one.read, now, now == rest)))
        left -= now
    return found
