"""Prompts that an engine holds back while others decode, so that one step reads more of them."""

from __future__ import annotations

from calc.serve.running import Hold


class Holding:
    """What is held back now. waited: steps for which too little to read had come; gathered: steps after enough had."""

    def __init__(self, hold: Hold, budget: int) -> None:
        self.hold, self.least = hold, hold.part * budget
        self.waited, self.gathered = 0, 0
        self.enough = False

    def left(self, prompts: int, tokens: int, decoding: int) -> int:
        """Steps for which prompts are held back from now on, while nobody comes or leaves. prompts: those that the next
        step could read; tokens: of that step, prompts' and answers'."""
        if decoding < max(self.hold.prompts, 1):
            return self._released()
        self.enough = tokens >= self.least and prompts >= self.hold.prompts
        if self.enough:
            self.waited = 0
        left = self.hold.further - self.gathered if self.enough else self.hold.steps - self.waited
        return left if left > 0 else self._released()

    def _released(self) -> int:
        self.waited, self.gathered = 0, 0
        return 0

    def passed(self, steps: int) -> None:
        """So many steps went without them."""
        if self.enough:
            self.gathered += steps
        else:
            self.waited += steps
