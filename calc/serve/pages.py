"""The cache of a server in pages: whose they are, which several sequences share, what further steps take."""

from __future__ import annotations

from calc.serve.decoding import Decoding
from calc.serve.prefixes import Prefixes
from calc.serve.running import Rules, Running


class Pages:
    """used: pages of sequences, without those they share; peak: the most that were taken. phases: how many sequences
    that decode begin a page at which of the server's steps, but for whole pages of steps."""

    def __init__(self, rules: Rules, shared: Prefixes | None = None) -> None:
        self.rules, self.shared = rules, shared
        self.used, self.peak = 0, 0
        self.phases = [0] * rules.block

    @property
    def held(self) -> int:
        """Pages that are taken."""
        return self.used + (self.shared.held * self.rules.pages(self.shared.tokens) if self.shared else 0)

    def own(self, one: Running, tokens: int) -> int:
        """Pages of a sequence beside those that it shares."""
        size = self.rules.pages(self.shared.tokens) if self.shared else 0
        return self.rules.pages(tokens) - len(one.shared) * size

    def take(self, one: Running) -> int | None:
        """Take pages for a prompt and one token more: tokens of it that were there already; None where there is no
        room."""
        found, made = self._share(one)
        need = self.own(one, one.prompt + 1)
        if self.free(need):
            self.used += need
            return found
        if self.shared is not None:
            self.shared.withdraw(one.shared, made)
        one.shared = ()
        return None

    def room_beside(self, one: Running, tokens: int, promised: int) -> bool:
        """Whether a sequence that is to come finds room up to so many tokens, beside pages promised to others."""
        held, new = self.held, self.rules.pages(tokens)
        if self.shared is not None:
            hashes = one.request.hashes[: one.prompt // self.shared.tokens]
            there = hashes[: self.shared.hits(hashes)]
            free = len(self.shared.idle) - sum(block in self.shared.idle for block in set(there))
            size = self.rules.pages(self.shared.tokens)
            held, new = held - free * size, new - len(there) * size
        return held + promised + new <= self.rules.blocks

    def _share(self, one: Running) -> tuple[int, tuple[int, ...]]:
        """Hold the blocks that a prompt may share: tokens of them that were there, and the blocks that were not."""
        if self.shared is None or not one.request.hashes:
            return 0, ()
        one.shared = one.request.hashes[: one.prompt // self.shared.tokens]
        found = self.shared.hits(one.shared) * self.shared.tokens
        return found, self.shared.enter(one.shared)

    def free(self, pages: int) -> bool:
        """Whether so many pages are free, or idle prefixes that can go."""
        lacking = self.held + pages - self.rules.blocks
        if lacking > 0 and self.shared is not None:
            size = self.rules.pages(self.shared.tokens)
            lacking -= self.shared.evict(-(-lacking // size)) * size
        return lacking <= 0

    def begin(self, one: Running) -> None:
        """A sequence decodes from now on."""
        self.phases[(one.begun - one.context) % self.rules.block] += 1

    def end(self, one: Running, tokens: int) -> None:
        """A sequence that has so many tokens decodes no more."""
        self.phases[(one.begun - one.context) % self.rules.block] -= 1
        self.give_back(one, tokens)

    def give_back(self, one: Running, tokens: int) -> None:
        """A sequence of so many tokens leaves its pages."""
        self.used -= self.own(one, tokens)
        if self.shared is not None and one.shared:
            self.shared.leave(one.shared)
            one.shared = ()

    def growth(self, decoding: Decoding, steps: int) -> int:
        """Pages that so many further steps take."""
        rules, each, now = self.rules, self.rules.accepted, decoding.steps
        if each == 1.0:
            # A step begins a page of those of one phase, and as many steps as a page has tokens one of everybody's.
            size, phases = rules.block, self.phases
            whole, rest = divmod(steps, size)
            first = now % size
            last = first + rest
            begun = sum(phases[first:last]) + (sum(phases[: last - size]) if last > size else 0)
            return whole * len(decoding.heap) + begun
        return sum(
            rules.pages(one.tokens(now + steps, each)) - rules.pages(one.tokens(now, each))
            for _, _, one in decoding.heap
        )

    def grow(self, decoding: Decoding, steps: int) -> None:
        """Take the pages of so many further steps."""
        self.used += self.growth(decoding, steps)
        held = self.held
        if held > self.peak:
            self.peak = held

    def room_for(self, decoding: Decoding) -> bool:
        """Whether the next step finds pages for its tokens."""
        need = self.growth(decoding, 1)
        return need <= self.rules.blocks - self.held or self.free(need)
