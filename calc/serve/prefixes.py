"""Blocks of prompts that stay in the cache for requests that begin alike."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class Prefixes:
    """Blocks by their hash, each with how many running sequences read it; those that none reads go first, the oldest of
    them ahead. tokens: of one such block."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.readers: dict[int, int] = {}
        self.idle: OrderedDict[int, None] = OrderedDict()

    @property
    def held(self) -> int:
        """Blocks that are in the cache, read or idle."""
        return len(self.readers) + len(self.idle)

    def hits(self, hashes: Sequence[int]) -> int:
        """How many blocks at the front of a prompt are there."""
        found = 0
        for block in hashes:
            if block not in self.readers and block not in self.idle:
                break
            found += 1
        return found

    def enter(self, hashes: Sequence[int]) -> tuple[int, ...]:
        """A sequence reads these blocks from now on; those of them that were not there."""
        made = tuple(block for block in dict.fromkeys(hashes) if block not in self.readers and block not in self.idle)
        for block in hashes:
            self.idle.pop(block, None)
            self.readers[block] = self.readers.get(block, 0) + 1
        return made

    def withdraw(self, hashes: Sequence[int], made: Sequence[int]) -> None:
        """A sequence that found no room reads them not after all; those made for it are gone."""
        self.leave(hashes)
        for block in made:
            del self.idle[block]

    def leave(self, hashes: Sequence[int]) -> None:
        """A sequence reads these blocks no more; they stay until room is needed."""
        for block in hashes:
            left = self.readers[block] - 1
            if left:
                self.readers[block] = left
            else:
                del self.readers[block]
                self.idle[block] = None

    def evict(self, blocks: int) -> int:
        """Give up as many idle blocks as asked for, or as there are; how many went."""
        going = min(blocks, len(self.idle))
        for _ in range(going):
            self.idle.popitem(last=False)
        return going
