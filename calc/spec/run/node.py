"""What every node of a run shares: immutable, closed to unknown words, and read without cost where nothing is said."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError, ValidationInfo

from calc import checks
from calc.errors import Refused
from calc.sizes import Size


@dataclass(frozen=True, slots=True)
class Sized:
    """Reads a size (`calc.checks.size`): at least `least`; None too where the field is `open`."""

    least: int = 1
    open: bool = False

    def __call__(self, value: Any, info: ValidationInfo) -> Size:
        if value is None and self.open:
            return None
        return checks.size(info.field_name or "", value, self.least)


@dataclass(frozen=True, slots=True)
class Word:
    """Reads one of the words that `known` gives; None too where the field is `open`."""

    known: Callable[[], Iterable[str]]
    open: bool = False

    def __call__(self, value: Any, info: ValidationInfo) -> str | None:
        if value is None and self.open:
            return None
        checks.word(info.field_name or "", value, tuple(self.known()))
        return value


@dataclass(frozen=True, slots=True)
class Words:
    """Reads a tuple of the words that `known` gives."""

    known: Callable[[], Iterable[str]]

    def __call__(self, value: Any, info: ValidationInfo) -> tuple[str, ...]:
        for each in value:
            checks.word(info.field_name or "", each, tuple(self.known()))
        return tuple(value)


@dataclass(frozen=True, slots=True)
class Flag:
    """Reads a truth value; None too where the field is `open`."""

    open: bool = False

    def __call__(self, value: Any, info: ValidationInfo) -> bool | None:
        if isinstance(value, bool) or (value is None and self.open):
            return value
        raise Refused(info.field_name or "", "true or false", value)


Positive = Annotated[Size, PlainValidator(Sized())]
"""A size from 1 on."""
FromZero = Annotated[Size, PlainValidator(Sized(0))]
"""A size from 0 on."""
MaybePositive = Annotated[Size, PlainValidator(Sized(open=True))]
"""A size from 1 on, or None."""
YesNo = Annotated[bool, PlainValidator(Flag())]
MaybeYesNo = Annotated[bool | None, PlainValidator(Flag(open=True))]


class RunNode(BaseModel):
    """One part of the description of a run.

    Sizes may be ints, sympy expressions or float64 arrays. Words are checked when a node is made.
    Errors: Refused for unknown words and for what is no size; TypeError for a field that there is not.
    """

    # Built when the first one is made: most commands make a Run and none of its parts alone.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def __init__(self, **words: Any) -> None:
        try:
            super().__init__(**words)
        except ValidationError as error:
            raise _plain(error, type(self).__name__) from None


def _plain(error: ValidationError, name: str) -> Exception:
    """What is wrong, as the rest of Envelope says it."""
    fault = error.errors(include_url=False)[0]
    if fault["type"] == "extra_forbidden":
        return TypeError(f"{name}() got an unexpected keyword argument {fault['loc'][0]!r}")
    cause = fault.get("ctx", {}).get("error")
    return cause if isinstance(cause, Refused) else Refused(str(fault["loc"][0]), fault["msg"], fault["input"])
