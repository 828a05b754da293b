"""What a stack can launch, as calc/data/launchers.toml says."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from calc.errors import Refused
from calc.reading.files import parse_toml, read_text
from calc.spec.stack import stack_names

LAUNCHERS = Path(__file__).parents[1] / "data" / "launchers.toml"
USUAL = "pytorch"
"""The stack of a plan where none is said."""


class Launcher(NamedTuple):
    """One stack. recipes: its number formats. only: field of a Run -> the values that it can launch.
    even: whether all pieces of stages have as many layers, embedding and head counted as one each or not at all."""

    name: str
    source: str
    recipes: tuple[str, ...]
    only: Mapping[str, tuple[Any, ...]]
    even: bool = False

    def takes(self, name: str, value: Any) -> bool:
        """Whether a plan with this value can be launched."""
        return name not in self.only or value in self.only[name]


def launcher(name: str | None) -> Launcher:
    """What the stack called `name` can launch. Errors: Refused for one of which nothing is written down."""
    known = _tables()
    if (name or USUAL) not in known:
        stacks = [each for each in known if each in stack_names()]
        raise Refused("--stack", f"one of {', '.join(stacks)}, whose plans are known", name)
    table = dict(known[name or USUAL])
    source, recipes, even = table.pop("source"), tuple(table.pop("recipes")), table.pop("even", False)
    return Launcher(name or USUAL, source, recipes, {field: tuple(values) for field, values in table.items()}, even)


@cache
def _tables() -> Mapping[str, Mapping[str, Any]]:
    return parse_toml(read_text(LAUNCHERS), LAUNCHERS.name)["stacks"]
