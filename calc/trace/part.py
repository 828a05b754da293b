"""The tree that everything folds over: a `Part` that repeats, and its `leaves`, the ops where they stand.

A model is a tree of parts whose leaves are ops. Parameters, FLOPs and cache bytes are sums over that tree
(`calc.quantities`); nothing is counted anywhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from calc.sizes import Size
from calc.trace.op import Component, Op
from calc.trace.tensor import Tensor

Role = Literal["front", "head", "pictures", "sounds", "indexer", "patcher", "idle"]
"""What a part is to its model, whatever it is called: `front` makes the vectors that the layers start from, `head` the
logits, `pictures` and `sounds` do not run where there are none, `indexer` chooses what attention reads, and `patcher`
where patches end: no gradient passes either. What is `idle` has weights and does not run."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the model that runs `calls` times and stands `copies` times in memory.

    name: a `{}` or `{group}` in it stands for the number of the copy.
    copies: how many sets of its weights exist (32 layers; 8 experts; 1 where layers share).
    active: how many of those sets one token visits (top_k experts); None means all.
    calls: how many times its ops run per forward pass. Experts' ops already hold all tokens' work: calls 1.
    layer: whether activation checkpointing treats it as one block.
    indices: the numbers of the copies where they are not 0, 1, 2, … (interleaved layers).
    component: what all weights in it are reported as, whatever they say themselves (a vision tower).
    role: what it is to the model, where a fold asks for it.
    group: of a layer, the name of its group in the description. region: what checkpointing calls it, where it can be
    computed again by itself; module: as that of an `Op`.
    expert: whether its copies are spread over expert-parallel ranks. tower: whether it is a
    stack of its own, beside the main one. way: of layers that are passed in several ways, as less or more of what they
    read needs a gradient, the number of all but the last way, which holds their weights.
    inputs, outputs: the tensors that come in and go out. holds: those that names in it hold until it ends, where it is
    run operator by operator; returns: those that it gives back beside its outputs, held until the layer ends.
    """

    name: str
    body: tuple[Part | Op, ...]
    calls: Size = 1
    copies: Size = 1
    active: Size | None = None
    layer: bool = False
    indices: tuple[int, ...] | None = None
    component: Component | None = None
    role: Role | None = None
    group: str | None = None
    region: str | None = None
    module: str | None = None
    expert: bool = False
    tower: bool = False
    way: int = 0
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    holds: tuple[Tensor, ...] = ()
    returns: tuple[Tensor, ...] = ()


Place = Literal["front", "layer", "end"]


class Leaf(NamedTuple):
    """An op where it stands in the tree, with the multipliers of all parts above it.

    layer: the path of the checkpointed block it belongs to, or None. component: what a part above it says its weights
    are, or None. parents: the parts above it, outermost first. place: before, in or behind the layers of the main
    stack; all of a tower stands before them, but in layers of its own. group: the name of its group of layers, or None.
    tower: the name of its tower, or None. expert: whether it is one of several that ranks share out.
    """

    path: str
    op: Op
    calls: Size
    copies: Size
    active: Size
    layer: str | None
    component: Component | None
    parents: tuple[Part, ...]
    place: Place = "front"
    group: str | None = None
    tower: str | None = None
    expert: bool = False

    @property
    def in_head(self) -> bool:
        """Whether it is one of those that make the logits of the next token."""
        return any(part.role == "head" for part in self.parents)


def leaves(part: Part) -> Iterator[Leaf]:
    """Every op of the tree in the order it runs, but for silent ones."""
    return _leaves(part, Leaf("", Op("", "gather", "other"), 1, 1, 1, None, None, ()))


def _leaves(part: Part, above: Leaf) -> Iterator[Leaf]:
    calls = _times(above.calls, part.calls)
    copies = _times(above.copies, part.copies)
    active = _times(above.active, part.copies if part.active is None else part.active)
    layer = above.path if part.layer else above.layer
    place: Place = "layer" if part.layer else above.place
    inside = Leaf(
        above.path,
        above.op,
        calls,
        copies,
        active,
        layer,
        part.component or above.component,
        (*above.parents, part),
        place,
        part.group or above.group,
        part.name if part.tower else above.tower,
        part.expert or above.expert,
    )
    for child in part.body:
        path = f"{above.path}.{child.name}" if above.path else child.name
        if not isinstance(child, Op):
            yield from _leaves(child, inside._replace(path=path))
            if child.layer and not part.tower:
                inside = inside._replace(place="end")
        elif not child.silent:
            yield inside._replace(path=path, op=child)


def _times(a: Size, b: Size) -> Size:
    """`a * b` that leaves an array alone when the other factor is the int 1: most parts stand once."""
    if type(b) is int and b == 1:
        return a
    if type(a) is int and a == 1:
        return b
    return a * b
