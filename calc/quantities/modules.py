"""Pieces of layers that backward computes again by themselves: which ops they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from calc.errors import Refused
from calc.spec.run.training import MODULES, RECOMPUTABLE
from calc.trace.part import Leaf

UNTIMED = ("activation", "norm")
"""Regions that are written down for what they keep alone."""
TIMED = tuple(name for name in RECOMPUTABLE if name not in UNTIMED)
"""Regions and modules whose time is known."""


def in_pieces(leaf: Leaf, names: Collection[str]) -> bool:
    """Whether an op stands in a region or module of these names, whole blocks of its layer among them."""
    return leaf.op.module in names or any(part.module in names or part.region in names for part in leaf.parents)


def modules_of(everything: Iterable[Leaf]) -> set[str]:
    """The names of the modules that a model has."""
    found = {each.module for leaf in everything for each in (leaf.op, *leaf.parents)}
    return {"core_attn", *filter(None, found)}


def check_modules(everything: Iterable[Leaf], names: Collection[str]) -> None:
    """Errors: Refused for modules of which a model has none."""
    asked = [name for name in MODULES if name in names]
    if not asked:
        return
    there = modules_of(everything)
    for name in asked:
        if name not in there:
            raise Refused("recompute", f"modules that the model has ({', '.join(sorted(there))})", name)


def recomputed_pieces(everything: Sequence[Leaf], names: Collection[str]) -> list[Leaf]:
    """The ops of regions and modules but for attention's core, all of which run once more, their last product too.

    Errors: Refused for regions whose ops are not written down, and for modules of which a model has none.
    """
    if not names:
        return []
    for name in UNTIMED:
        if name in names:
            raise Refused("recompute", f"one of {', '.join(TIMED)}, whose time is known", name)
    check_modules(everything, names)
    return [leaf for leaf in everything if leaf.op.live and in_pieces(leaf, names)]
