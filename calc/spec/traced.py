"""A model that nobody has described: its record is captured from the operations that PyTorch runs for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import Field

from calc.spec.load import Load
from calc.spec.model import ModelSpec

EXACT = "traced: no formula per component, exact for these lengths"


class Traced(ModelSpec):
    """`layers` says how many alike layers there are of each kind, and nothing of what is in them.

    record: the tree of ops (`calc.trace.op.Part`) under a load; None asks for one whose lengths do not matter, for what
    it weighs. It raises Refused for lengths that cannot be traced. tokens: whether its sequences are tokens. stretches:
    whether what goes in is as long as is asked, and not a picture or sound of one size.
    """

    record: Callable[[Load | None], Any] = Field(repr=False, exclude=True)
    tokens: bool = True
    stretches: bool = True

    @property
    def reads_tokens(self) -> bool:
        return self.tokens

    @property
    def has_own_length(self) -> bool:
        return not self.stretches

    @property
    def unit(self) -> str:
        """How many vectors a picture or sound becomes is not known: it counts as one."""
        return super().unit if self.stretches else "inputs"

    @property
    def decodes(self) -> bool:
        """What is captured is a pass without a cache."""
        return False
