"""What is live at the widest moment of a pass that keeps nothing for backward: a fold over the recorded pass.

A tensor is live from the op that makes it to the last that reads it. Run operator by operator (`eager`, `sdpa`), as
transformers 5.23 is written, names hold some longer: the model's first vectors until its last layer ends, a layer's
input until that layer does, and within a part what it says (`Part.holds`, `Part.returns`). In every execution what a
part reads is live until it ends, and what all layers read throughout. What one primitive takes beside its operands and
results stands with it (`Op.live_bytes`). Keys and values that later layers borrow are in the cache.
Left out: what single families name beside these (docs/memory.md lists them and how much it is), routers' few numbers,
workspaces of kernels, what an allocator rounds up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from calc.memory.sharding import Stage
from calc.sizes import Size, is_exactly, largest
from calc.trace.footprint import Footprint
from calc.trace.functions import TRAITS
from calc.trace.op import Op
from calc.trace.part import Part
from calc.trace.tensor import Tensor

Body = tuple[Part | Op, ...]


@dataclass(slots=True)
class _Lives:
    """The ops of a piece of a pass in order, and of every tensor that they make or read the first and last of them.

    made: the place of the op that makes it. last: of the one after which it is free.
    """

    footprint: Footprint
    ops: list[Op] = field(default_factory=list)
    made: dict[Tensor, int] = field(default_factory=dict)
    last: dict[Tensor, int] = field(default_factory=dict)
    homes: dict[Tensor, Tensor] = field(default_factory=dict)
    returned: list[Tensor] = field(default_factory=list)

    def home(self, x: Tensor) -> Tensor:
        """The tensor whose memory x has: of one written in place, that which it was written over."""
        return self.homes.get(x.storage, x.storage)

    def add(self, body: Body) -> None:
        """Lay out the ops of a body, and of the parts in it."""
        for child in body if self.footprint.compiled else _nested(body):
            if isinstance(child, Part):
                self.add(child.body)
                held = child.inputs if self.footprint.compiled else (*child.inputs, *child.holds)
                self.hold(*held)
                self.returned += () if self.footprint.compiled else child.returns
            else:
                self._op(child)

    def hold(self, *tensors: Tensor) -> None:
        """Hold these until here."""
        for x in tensors:
            self.last[self.home(x)] = len(self.ops) - 1

    def _op(self, op: Op) -> None:
        place = len(self.ops)
        self.ops.append(op)
        self.last |= {self.home(x): place for x in op.inputs}
        over = op.inputs if self.footprint.compiled and TRAITS[op.function].in_place else ()
        for i, x in enumerate(op.outputs):
            if i < len(over):
                self.homes[x] = self.home(over[i])
            elif self.home(x) not in self.made and self.home(x) not in self.last:
                self.made[self.home(x)] = place
        self.last |= {self.home(x): place for x in op.outputs if self.home(x) not in self.last}

    def read(self) -> list[Tensor]:
        """What comes from outside."""
        return [x for x in self.last if x not in self.made]

    def moments(self, *given: Tensor) -> Iterator[Size]:
        """Bytes live at each moment that can be the widest; given: what else is live from the start."""
        live = dict.fromkeys(map(self.home, given))
        for place, op in enumerate(self.ops):
            made = [x for x in dict.fromkeys(map(self.home, op.outputs)) if self.made.get(x) == place]
            live_bytes = op.live_bytes
            taken = sum(map(self.footprint.of, made)) if live_bytes is None else live_bytes(self.footprint)
            ends = [x for x in (*live, *made) if self.last.get(x) == place]
            if ends or live_bytes is not None or place == len(self.ops) - 1:
                yield sum(map(self.footprint.of, live)) + taken
            live |= dict.fromkeys(made)
            for x in ends:
                live.pop(x, None)


def widest(body: Body, footprint: Footprint, stage: Stage, *, tower: bool = False) -> Size:
    """Bytes live at the widest moment on a rank that has these layers of a stack, of which `body` is the record.

    tower: whether the stack is one beside the main one, all of whose layers are on the rank. The head is left out.
    """
    stack = _Stack(body, footprint)
    moments = [widest(part.body, footprint, stage, tower=True) for part in stack.towers]
    if stage.first or tower:
        moments += stack.of_front()
    for part in stack.kinds:
        if tower or not is_exactly(stage.layers[str(part.group)], 0):
            moments += stack.of_layer(part)
    if stage.last or tower:
        moments += stack.of_end()
    return largest(moments)


class _Stack:
    """The record of a stack: its towers, what stands before its layers, one layer of each kind, what stands behind."""

    def __init__(self, body: Body, footprint: Footprint) -> None:
        self.footprint = footprint
        places = [i for i, child in enumerate(body) if isinstance(child, Part) and child.group is not None]
        parts = [child for child in body if isinstance(child, Part)]
        self.kinds = [part for part in parts if part.group is not None]
        self.towers = [part for part in parts if part.tower]
        self.front = tuple(child for child in body[: places[0]] if not (isinstance(child, Part) and child.tower))
        behind = body[places[-1] + 1 :]
        # The head is a moment of its own: of how many positions it gives logits is asked of a run.
        self.end = tuple(child for child in behind if not (isinstance(child, Part) and child.role == "head"))
        self.layers = [_layer(part, footprint) for part in self.kinds]
        inside = {x for lives in self.layers for x in lives.made}
        streams = {x.storage for part in self.kinds for x in part.inputs}
        self.common = {x for lives in self.layers for x in lives.read()} - inside - streams
        made, read = next(part for part in parts if part.role == "front").outputs[0], self.kinds[0].inputs[0]
        # With a prompt they are more, and as wide; several residual streams, and one in fp32, are copies.
        self.vectors = read if read.width is made.width and not read.wide else made

    @property
    def throughout(self) -> Size:
        """Bytes live while any layer runs."""
        tables: dict[str, Size] = {}
        for tables_of in (op.tables for lives in self.layers for op in lives.ops):
            tables |= {} if tables_of is None else tables_of(self.footprint)
        named = set() if self.footprint.compiled else {self.vectors.storage}
        return sum(tables.values()) + sum(map(self.footprint.of, self.common | named))

    def of_front(self) -> Iterator[Size]:
        """The moments ahead of the layers; what these read stays."""
        lives = _Lives(self.footprint)
        lives.add(self.front)
        left = (*self.common, *self.kinds[0].inputs)
        lives.hold(*(x for x in left if lives.home(x) in lives.made))
        return lives.moments()

    def of_layer(self, part: Part) -> Iterator[Size]:
        """The moments of one layer of a kind."""
        held = self.throughout
        return (held + each for each in self.layers[self.kinds.index(part)].moments(*part.inputs))

    def of_end(self) -> Iterator[Size]:
        """The moments behind the layers, but for the head's."""
        lives = _Lives(self.footprint)
        lives.add(self.end)
        held = self.throughout
        return (held + each for each in lives.moments(*self.kinds[-1].outputs))


def _layer(part: Part, footprint: Footprint) -> _Lives:
    """One layer."""
    lives = _Lives(footprint)
    lives.add(part.body)
    lives.hold(*part.outputs, *lives.returned)
    if not footprint.compiled:
        lives.hold(*part.inputs)
    return lives


def _nested(body: Body) -> Body:
    """A body in the order in which calls within calls run: norms straight behind what makes their input."""
    order: list[Part | Op] = []
    for child in body:
        place = len(order)
        if isinstance(child, Op) and child.kind == "norm":
            read = {x.storage for x in child.inputs}
            place = next((i for i, each in enumerate(order, 1) if read & set(each.outputs)), place)
        order.insert(place, child)
    return tuple(order)
