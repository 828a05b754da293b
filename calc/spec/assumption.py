"""What was taken for a key that a config leaves out."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class DefaultTaken(BaseModel):
    """A note of a model: its config has no `key`, for which `value` was taken, as its family's class does.

    No piece of its description, whose sizes a formula has.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    key: str
    value: int

    def __str__(self) -> str:
        return f"{self.key} is absent: {self.value}, this family's default"
