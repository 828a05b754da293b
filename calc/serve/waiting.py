"""Requests that wait for a server, and which of them it lets in."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from calc.serve.pages import Pages
from calc.serve.promises import Promises
from calc.serve.running import Rules, Running


class Waiting:
    """Who waits, by priority and then as they came; whoever is let in takes `pages`, beside what `promises` keep for
    those inside."""

    def __init__(self, rules: Rules, pages: Pages, promises: Promises | None) -> None:
        self.rules, self.pages, self.promises = rules, pages, promises
        self.queue: deque[Running] = deque()

    def __len__(self) -> int:
        return len(self.queue)

    def add(self, one: Running) -> None:
        """One more, behind all of its priority."""
        self.queue.append(one)
        if len(self.queue) > 1 and self.queue[-2].request.priority > one.request.priority:
            self.queue = deque(sorted(self.queue, key=lambda each: each.request.priority))

    def back(self, one: Running) -> None:
        """One that gave way waits ahead of all others."""
        self.queue.appendleft(one)

    def let_in(self, known: int, inside: int, promised: int) -> Iterator[Running]:
        """Who is let in, first come first served, while there is room for the prompt and one token more, and what the
        engine promises; who came after `known` holds up nobody. promised: pages of so many that are inside."""
        for _ in range(inside, self.rules.running):
            one = next((each for each in self.queue if each.came < known), None)
            if one is None:
                return
            if self.promises and not self.pages.room_beside(one, self.promises.whole(one), promised):
                return
            found = self.pages.take(one)
            if found is None:
                return
            if self.promises:  # those of one look have all of their answers promised
                promised += self.rules.pages(self.promises.whole(one)) - self.rules.pages(one.prompt + 1)
            self.queue.remove(one)
            if found:
                one.read = max(one.read, min(found, one.prompt - 1))
                one.request.cached = one.read
            yield one
