"""Commands that launch a plan: written an option a line, and read again."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable
from typing import Any

from calc.errors import Refused
from calc.plan.export.launch import Launch

OF_TORCHRUN = ("--nproc-per-node", "--rdzv-backend", "--rdzv-endpoint")
UNDERSCORED = {f"--{name[2:].replace('-', '_')}": name for name in OF_TORCHRUN}
"""torchrun takes both spellings of its options (torch/distributed/run.py)."""


def torchrun(launch: Launch, program: str) -> str:
    """The beginning of a command on every machine."""
    where = f"--nnodes {launch.nodes} --nproc-per-node {launch.per_node}"
    rendezvous = " --rdzv-backend c10d --rdzv-endpoint $HEAD:29500" if launch.nodes > 1 else ""
    return f"torchrun {where}{rendezvous} {program}"


def command(start: str, options: Iterable[tuple[str, Any]]) -> str:
    """A command with an option a line; one whose value is True is a flag, None and False are left out.
    A tuple is several values."""
    lines = [start]
    for name, value in options:
        if value is None or value is False:
            continue
        if isinstance(value, tuple):
            lines.append(shlex.join([name, *value]))
            continue
        lines.append(name if value is True else f"{name} {shlex.quote(str(value))}")
    return " \\\n  ".join(lines) + "\n"


def options_of(text: str, where: str, known: Collection[str]) -> dict[str, str]:
    """Option -> value of a command, or of a script that holds one; a flag's value is empty.

    Errors: Refused for text that is no command, or that has none of the `known` options.
    """
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise Refused(where, f"a command ({error})", text[:40]) from None
    found: dict[str, str] = {}
    for place, word in enumerate(words):
        if not word.startswith("--"):
            continue
        name, equals, value = word.partition("=")
        after = words[place + 1] if place + 1 < len(words) else "--"
        found[UNDERSCORED.get(name, name)] = value if equals else "" if after.startswith("--") else after
    if not found.keys() & set(known):
        raise Refused(where, f"options, {next(iter(known))} among them", text[:40])
    return found


def values_of(text: str, option: str) -> tuple[str, ...]:
    """All values of an option of a command that takes several; none where it is absent. text: a command that
    `options_of` has read."""
    words = shlex.split(text.replace("\\\n", " "), comments=True)
    found: list[str] = []
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name != option:
            continue
        found = [value] if equals else []
        for after in words[place + 1 :]:
            if after.startswith("--"):
                break
            found.append(after)
    return tuple(found)
