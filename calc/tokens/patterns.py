"""The patterns by which published tokenizers cut text, from data/tokens/patterns.toml."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from calc.errors import Refused
from calc.reading.files import parse_toml, read_text

_FILE = Path(__file__).parent.parent / "data" / "tokens" / "patterns.toml"


class Pattern(NamedTuple):
    """One spelling of a pattern. splits: applied one after the other. ranks: .tiktoken files that go with it."""

    name: str
    source: str
    splits: tuple[str, ...]
    ranks: tuple[str, ...] = ()


@cache
def patterns() -> tuple[Pattern, ...]:
    """Every spelling that is known."""
    entries = parse_toml(read_text(_FILE), _FILE.name)["pattern"]
    return tuple(Pattern(e["name"], e["source"], tuple(e["splits"]), tuple(e.get("ranks", ()))) for e in entries)


def of_ranks(stem: str, name: str | None) -> str:
    """The pattern for a file of ranks, by the name given, or else by the file's own name.

    Errors: Refused for an unknown name, and for a file that is not known where none is given.
    """
    single = {each.name: each for each in patterns() if len(each.splits) == 1}
    if name is not None:
        if name not in single:
            raise Refused("--pattern", f"one of {', '.join(single)}", name)
        return single[name].splits[0]
    for each in patterns():
        if stem in each.ranks:
            return each.splits[0]
    known = ", ".join(stem for each in patterns() for stem in each.ranks)
    raise Refused("--pattern", f"one of {', '.join(single)} for a file of ranks other than {known}", "none")
