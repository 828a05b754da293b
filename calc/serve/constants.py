"""Constants of servers that were fitted to measured ones, and what multiplies them for a kind of device or engine."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from calc.errors import Refused
from calc.reading.files import parse_toml, read_text
from calc.spec.run.engines import engine_named, engine_names

FILE = Path(__file__).parents[1] / "data" / "serving" / "constants.toml"
MOST = 0.95
"""Of a datasheet's peak, bandwidth or link, what a fitted share never exceeds."""
Constants = Mapping[str, Any]
"""`name` or `name.kind` -> a constant; one of a kind multiplies the general one. Columns of numbers give columns."""


@cache
def constants(file: Path = FILE) -> Constants:
    """The fitted constants of the data file: `[name]` tables with `value`, and by kind what multiplies it."""
    table = parse_toml(read_text(file), file.name)
    return _flat(table["constants"])


def _flat(tables: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    return {
        name if kind == "value" else f"{name}.{kind}": float(value)
        for name, own in tables.items()
        for kind, value in own.items()
    }


def file_of(engine: str) -> Path:
    """The data file of an engine's constants."""
    return FILE.with_name(f"{engine_named(engine).constants}.toml")


def constants_of(engine: str) -> Constants:
    """The fitted constants by which an engine is predicted."""
    return constants(file_of(engine))


def fitted_engines() -> list[str]:
    """The engines whose overheads are fitted to measured servers, sorted."""
    return [name for name in engine_names() if file_of(name) != FILE or f"step.{name}" in constants()]


@cache
def judged() -> Constants:
    """What kinds that no row tells of are taken to be, as multiples of the fitted constants."""
    return _flat(parse_toml(read_text(FILE), FILE.name)["judged"])


class Fitted(NamedTuple):
    """Fitted constants, each a general one times what it is multiplied with for its kinds (a family, an engine)."""

    known: Constants

    def of(self, name: str, *kinds: str) -> Any:
        """The constant `name` for all of these kinds together. Errors: Refused for one that the constants lack."""
        if name not in self.known:
            raise Refused("constants", f"one of {name}", f"none among {', '.join(self.known)[:60]} …")
        value = self.known[name]
        for kind in kinds:
            value = value * of_kind(self.known, f"{name}.{kind}")
        return value

    def share(self, name: str, *kinds: str) -> Any:
        """The same of a share of a datasheet's figure, which none exceeds."""
        return least(self.of(name, *kinds), MOST)


def least(one: Any, other: Any) -> Any:
    """The smaller of two numbers; of columns, of every two in a place."""
    if isinstance(one, float) and isinstance(other, float):
        return min(one, other)
    import numpy as np

    return np.minimum(one, other)


def greatest(one: Any, other: Any) -> Any:
    """The greater of two numbers; of columns, of every two in a place."""
    return -least(-one, -other)


def of_kind(known: Constants, name: str) -> Any:
    """What multiplies a constant for one kind: fitted, judged, or nothing."""
    found = known.get(name)
    return judged().get(name, 1.0) if found is None else found


class Families(NamedTuple):
    """Families of architectures whose servers were measured, and those that are moved from these by datasheets."""

    measured: tuple[str, ...]
    alike: tuple[str, ...]


@cache
def families_of(engine: str) -> Families:
    """On what an engine's constants rest."""
    file = file_of(engine)
    own = parse_toml(read_text(file), file.name)["families"]
    return Families(tuple(own["measured"]), tuple(own["alike"]))


def interval_of(name: str, engine: str) -> tuple[float, float, float]:
    """level, and the multiples of a predicted mean between which as many measured ones lie: of systems that constants
    were not fitted to in turn, of the engine where its own stray otherwise."""
    own = _intervals(file_of(engine))
    return own["level"], *own.get(engine, own).get(name, own[name])


@cache
def _intervals(file: Path) -> dict[str, Any]:
    return parse_toml(read_text(file), file.name)["interval"]
