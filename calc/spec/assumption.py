"""What was taken for a key that a config leaves out."""

from __future__ import annotations

from calc.spec.fields import Node


class DefaultTaken(Node):
    """A note of a model: its config has no `key`, for which `value` was taken, as its family's class does."""

    key: str
    value: int

    def __str__(self) -> str:
        return f"{self.key} is absent: {self.value}, this family's default"
