"""A stack: groups of equal layers, each a mixer and a channel mixer, between a front and what reads their result."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from calc.spec.stack_fields import StackFields
from calc.spec.stack_rules import RULES


class Stack(StackFields):
    """A front, layers and what reads their result: the fields of `StackFields`, which agree.

    Errors: Refused, by `RULES`.
    """

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        for rule in RULES:
            rule(self)
        return self
