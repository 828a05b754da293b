"""Dotted names such as `layers.{full}.mlp.up_proj` in few columns: their ends, still told from one another."""

from __future__ import annotations

import re
from collections.abc import Sequence

_KIND = re.compile(r"\{\w+\}")
"""The part of a name that says of which kind of layers it is."""


def short_names(names: Sequence[str], room: int) -> list[str]:
    """Each name cut at a dot to `room` columns; where different names have the same end, the kind of layer before it,
    and where that does not tell them apart either, longer ends on lines broken behind dots."""
    choices = [_choices(name, room) for name in names]
    at = [0] * len(names)
    while True:
        shown = [ends[i] for ends, i in zip(choices, at, strict=True)]
        meant: dict[str, set[str]] = {}
        for end, name in zip(shown, names, strict=True):
            meant.setdefault(end, set()).add(name)
        if all(len(those) == 1 for those in meant.values()):
            return [_folded(end, room) for end in shown]
        steps = [len(meant[end]) > 1 for end in shown]
        at = [min(i + step, len(ends) - 1) for i, step, ends in zip(at, steps, choices, strict=True)]


def _choices(name: str, room: int) -> list[str]:
    """What may stand for a name, the shortest first of those that say more; the last is the name itself."""
    parts = name.split(".")
    ends = [name, *("…." + ".".join(parts[i:]) for i in range(1, len(parts)))]
    plain = next((end for end in ends if len(end) <= room), ends[-1])
    kinds = [name, *(_kind(parts[:i]) + end for i, end in enumerate(ends[1:], 1))]
    fitting = next((i for i, end in enumerate(kinds) if len(end) <= room), len(kinds) - 1)
    return [plain, *kinds[fitting::-1]]


def _kind(parts: Sequence[str]) -> str:
    return next((part for part in reversed(parts) if _KIND.fullmatch(part)), "")


def _folded(name: str, room: int) -> str:
    lines = [""]
    for part in re.findall(r"(?:…\.)?[^.]*\.*", name):  # what stands for a beginning stays with what follows it
        if lines[-1] and len(lines[-1] + part) > room:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)
