"""How the settings of a launch file are read: whole numbers, words, and names that are not known."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, overload

from calc.errors import Refused
from calc.units import parse_tokens

ALIKE = 0.9
"""How alike two settings' names are, of 1, where one is taken for the other misspelt."""


@overload
def whole(found: Mapping[str, Any], name: str, where: str, usual: int, least: int = 1) -> int: ...
@overload
def whole(found: Mapping[str, Any], name: str, where: str, usual: None = None, least: int = 1) -> int | None: ...
def whole(found: Mapping[str, Any], name: str, where: str, usual: int | None = None, least: int = 1) -> int | None:
    """The whole number from `least` on that a setting gives, `usual` where it is absent. Errors: Refused for anything
    else."""
    if name not in found or found[name] is None:
        return usual
    return parse_tokens(str(found[name]), f"{where}: {name}", least)


def one_of(found: Mapping[str, Any], name: str, known: Mapping[str, Any], usual: str, where: str) -> Any:
    """What the word of a setting stands for. Errors: Refused for a word that is not known."""
    word = str(found.get(name, usual))
    if word not in known:
        raise Refused(f"{where}: {name}", f"one of {', '.join(known)}", word)
    return known[word]


def gpus_of(found: Mapping[str, Any], nodes: str, per_node: str, where: str) -> int | None:
    """The GPUs of so many machines, by the names of two settings; None where one of them is absent."""
    machines, each = whole(found, nodes, where), whole(found, per_node, where)
    return None if machines is None or each is None else machines * each


def unread_within(found: Mapping[str, Any], section: str, known: Collection[str]) -> tuple[str, ...]:
    """Settings of a section of a launch file that no plan has, with the section's name before each."""
    its = found.get(section)
    return tuple(f"{section}.{name}" for name in its if name not in known) if isinstance(its, dict) else ()


def meant(name: str, known: Collection[str]) -> str:
    """A setting that is not read, with a hint where it looks like one that is, but for a letter or two."""
    from difflib import get_close_matches

    plain = {each.replace("_", "-"): each for each in known}
    close = get_close_matches(name[:80].replace("_", "-"), plain, n=1, cutoff=ALIKE)
    return f"{name} (did you mean {plain[close[0]]}?)" if close else name
