"""Which layers of a capture are alike, so that one stands for all of its kind."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass

from calc.tracing.events import Capture, Event, Seen

Entry = tuple[str, int, int]
"""(the list's path, the number in it, how often that layer had been entered)."""


@dataclass(slots=True)
class Kind:
    """Layers that do the same. name: of the group. entries: every passing of one, in order; the first stands for all.
    numbers: of the layers that have weights of their own."""

    name: str
    list: str
    entries: list[Entry]
    events: list[Event]

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(number for _, number, _ in self.entries))

    @property
    def own(self) -> str:
        """The path of the first of them, which stands for all, with a dot behind it."""
        return f"{self.list}.{self.entries[0][1]}."

    @property
    def path(self) -> str:
        """The path of any of them, with a hole for its number."""
        return f"{self.list}.{{{self.name}}}"

    @property
    def shared(self) -> bool:
        """Whether it is one layer, passed several times."""
        return len(self.numbers) < len(self.entries)


def kinds(capture: Capture, shapes: dict[str, tuple[int, ...]]) -> tuple[list[Kind], list[Entry]]:
    """The kinds of layers, and every passing of a layer in the order they ran. shapes: of all parameters.

    Two layers are alike where they run the same operations on the same shapes and hold weights of the same paths and
    shapes below their own; a layer that is passed several times is alike to none but itself.
    """
    passed: dict[Entry, list[Event]] = {}
    for event in capture.events:
        if event.place.layer is not None:
            passed.setdefault(event.place.layer, []).append(event)
    often = {(name, number) for name, number, times in passed if times}
    found: dict[Hashable, Kind] = {}
    for entry, events in passed.items():
        own = f"{entry[0]}.{entry[1]}."
        alone = entry[1] if entry[:2] in often else None
        held = tuple(sorted((k[len(own) :], s) for k, s in shapes.items() if k.startswith(own)))
        key = (entry[0], alone, held, tuple(_signature(event, own) for event in events))
        if key not in found:
            found[key] = Kind("", entry[0], [], events)
        found[key].entries.append(entry)
    made = list(found.values())
    for kind in made:
        same = [each for each in made if each.list == kind.list]
        kind.name = _name(kind.list) + ("" if len(same) == 1 else f"_{same.index(kind) + 1}")
    return made, list(passed)


def _name(path: str) -> str:
    plain = re.sub(r"[^a-z0-9]+", "_", path.lower()).strip("_")
    return plain if plain[:1].isalpha() else f"layers_{plain}".rstrip("_")


def _signature(event: Event, own: str) -> Hashable:
    def of(x: Seen | None) -> Hashable:
        if x is None:
            return None
        weight = x.weight
        below = weight is not None and weight.startswith(own)
        return x.shape, x.grad, x.own, "." + weight[len(own) :] if below and weight is not None else weight, x.wide

    path = event.place.path[len(own) :] if event.place.path.startswith(own) else ""
    return path, event.works, tuple(map(of, event.reads)), tuple(map(of, event.makes))
