"""Which module imports which, read off the source: those within functions and for type checkers too."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.reference import ROOT

Graph = Mapping[str, frozenset[str]]


@cache
def imported(file: Path) -> frozenset[str]:
    """Every module that a file imports, wherever in it, and what it takes from each, by dotted name."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


@cache
def modules(package: str) -> Graph:
    """Module -> the modules of the package that it imports."""
    files = {_name(file): file for file in sorted((ROOT / package).rglob("*.py"))}

    def module(name: str) -> str:
        """The module that a name is, or is in."""
        return name if name in files else name.rpartition(".")[0]

    return {
        name: frozenset(found for each in imported(file) if (found := module(each)) in files and found != name)
        for name, file in files.items()
    }


@cache
def rooms(package: str) -> Graph:
    """The same between what lies directly in the package: packages and single modules."""
    depth, found = package.count(".") + 2, dict[str, set[str]]()
    for name, others in modules(package.split(".")[0]).items():
        own = _room(name, depth)
        if f"{name}.".startswith(f"{package}."):
            inside = (_room(each, depth) for each in others if f"{each}.".startswith(f"{package}."))
            found.setdefault(own, set()).update(room for room in inside if room != own)
    return {room: frozenset(others) for room, others in found.items()}


def cycle(graph: Graph) -> list[str]:
    """A way back to where it began, or nothing where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def _room(name: str, depth: int) -> str:
    return ".".join(name.split(".")[:depth])


def _name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
