"""Serving engines: what each runs in a step, as data with version and source."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from calc.errors import Refused
from calc.reading.files import parse_toml, read_text

FOLDER = Path(__file__).parents[1] / "data" / "engines"


@dataclass(frozen=True, slots=True)
class Engine:
    """The rules of one engine.

    version: of the sources that were read. block: tokens of a page of the cache. batched_tokens: of one step, at most.
    max_seqs: sequences that run at once, at most. memory_fraction: of a GPU's memory that it takes. chunked: whether a
    prompt may be read in pieces. mixed: whether pieces of prompts and new tokens share a step. cache: the format of
    keys and values beside weights in 8 bits or fewer, where nobody says. scatter: spread of lengths of requests that
    are called equal: with 0 those that begin together stay in step, which prompts that go ahead of everything keep up.
    """

    name: str
    title: str
    version: str
    source: str
    block: int
    batched_tokens: int
    max_seqs: int
    memory_fraction: float
    chunked: bool
    mixed: bool
    prefix_cache: bool
    cache: str
    scatter: float


def engine_names() -> list[str]:
    """The engines of the data folder, sorted."""
    return sorted(_engines())


def engine_named(name: str) -> Engine:
    """The engine called `name`. Errors: Refused, with the known names."""
    if name not in _engines():
        raise Refused("--engine", f"one of {', '.join(engine_names())}", name)
    return _engines()[name]


@cache
def _engines() -> dict[str, Engine]:
    found = {}
    for path in sorted(FOLDER.glob("*.toml")):
        engine = Engine(**parse_toml(read_text(path), path.name))
        found[engine.name] = engine
    return found
