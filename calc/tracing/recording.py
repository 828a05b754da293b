"""From what was seen to the record: a tree of parts and ops, written on the recorder that blocks write on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from calc.spec.load import Scores
from calc.trace.echo import echo
from calc.trace.functions import Attend
from calc.trace.op import Component, Moves, Op, Weight
from calc.trace.part import Part
from calc.trace.tape import Storage, Tape, element_bytes
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace
from calc.tracing.aten import Work
from calc.tracing.components import component_of
from calc.tracing.events import Capture, Event, Seen
from calc.tracing.layers import Entry, Kind, kinds
from calc.tracing.saved_passes import Again, SavedPasses
from calc.tracing.works import between_activations, moves_of, seen_pairs, sides


@dataclass(frozen=True, slots=True)
class Experts:
    """Routed experts as the config tells them: how many there are in a layer and how many a token visits."""

    copies: int
    active: int


@dataclass(slots=True)
class Recording:
    """One capture being written down. shapes: of all parameters by path. frozen: those that are not trained."""

    capture: Capture
    shapes: dict[str, tuple[int, ...]]
    frozen: frozenset[str]
    experts: Experts | None
    scores: Scores
    again: Again
    t: Trace = field(default_factory=Trace)
    found: dict[int, Tensor] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    grads: frozenset[int] = frozenset()
    untrained: frozenset[int] = frozenset()
    laid: set[tuple[str, int]] = field(default_factory=set)
    owned: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # What a call makes learns only behind it that it needs a gradient.
        seen = (x for event in self.capture.events for x in event.reads)
        self.grads = frozenset(x.storage for x in seen if x is not None and x.grad)
        reached, events = self.capture.reached(), self.capture.events
        self.untrained = frozenset(id(event) for i, event in enumerate(events) if i not in reached)

    def tree(self) -> Part:
        """Front, one part for each kind of layers, and what stands behind them, its logits last."""
        some, _ = kinds(self.capture, self.shapes)
        self.owned = tuple(f"{kind.list}.{number}." for kind in some for number in kind.numbers)
        ahead, behind, head = self.outside()
        saved = SavedPasses(self.again, some)
        inputs = {kind.name: self.given(kind.entries[0]) for kind in some}
        with self.t.part("front", role="front"):
            for event in ahead:
                self.event(event, None)
            made = tuple(inputs.values())
            self.keeps(made, lambda tape: saved.front(tape))
        for kind in some:
            self.layers(kind, inputs[kind.name], saved)
        for event in behind:
            self.event(event, None)
        logits: tuple[Tensor, ...] = ()
        if head:
            with self.t.part("logits", role="head") as out:
                for event in head:
                    out[:] = [self.event(event, None)]
            logits = tuple(out)
        self.keeps(logits, lambda tape: saved.end(tape, bool(logits)))
        self.unread()
        return Part("", tuple(self.t.body))

    def outside(self) -> tuple[list[Event], list[Event], list[Event]]:
        """What stands before the layers, behind them, and of that what makes the logits: from the last product on."""
        events = self.capture.events
        at = [i for i, event in enumerate(events) if event.place.layer is not None]
        first = at[0] if at else len(events)
        ahead = [event for event in events[:first] if event.place.layer is None]
        behind = [event for event in events[first:] if event.place.layer is None]
        if self.capture.logits is None:
            return ahead, behind, []
        rest = behind if at else ahead
        last = next((i for i in reversed(range(len(rest))) if rest[i].works[0].kind == "linear"), len(rest))
        head = rest[last:]
        return (ahead, rest[:last], head) if at else (rest[:last], [], head)

    def given(self, entry: Entry) -> Tensor:
        """What the first layer of a kind is given."""
        x = self.capture.entered.get(entry)
        if x is None:
            return Tensor(1, 1)
        return self.found.setdefault(x.storage, Tensor(x.bytes // element_bytes(x.dtype), 1, x.grad))

    def keeps(self, outputs: tuple[Tensor, ...], rule: Callable[[Tape], list[Storage]]) -> None:
        """Lay what says what autograd keeps of the ops before it, which have no rule of their own."""
        self.t.body.append(Op("saved", "elementwise", "other", outputs=outputs, keeps=rule, silent=True))

    def layers(self, kind: Kind, x: Tensor, saved: SavedPasses) -> None:
        calls, copies = len(kind.entries), len(kind.numbers)
        fields = {"calls": calls, "copies": copies, "layer": True, "indices": kind.numbers, "group": kind.name}
        with self.t.part(kind.path, x, **fields) as out:
            for event in kind.events:
                out[:] = [self.event(event, kind)]
            self.unread(kind)
            self.keeps((), lambda tape: saved.layer(tape, kind))
        if self.laid >= {(kind.list, number) for number in kind.numbers}:
            # It has been passed before in another way, and its weights stand there.
            part = self.t.body[-1]
            assert isinstance(part, Part)
            self.t.body[-1] = echo(part)
        self.laid |= {(kind.list, number) for number in kind.numbers}
        # What its alike ones read stands for them too.
        self.read |= {key for key in self.shapes if key.startswith(tuple(f"{kind.list}.{n}." for n in kind.numbers))}

    def event(self, event: Event, kind: Kind | None) -> Tensor:
        """Record the ops of one call; the tensor that it makes first."""
        reads = tuple(self.tensor(x) for x in event.reads if x is not None and x.weight is None)
        made = tuple(dict.fromkeys(self.made(x) for x in event.makes))
        names = list(dict.fromkeys(x.weight for x in event.reads if x is not None and x.own and x.weight))
        lent = [name for name in names if name.startswith(self.owned) and not self.inside(name, kind)]
        names = [name for name in names if name not in lent]
        self.read |= set(names)
        # A matrix comes ahead of its bias.
        names.sort(key=lambda name: -len(self.shapes[name]))
        weights = tuple(self.weight(name, kind) for name in names)
        path = event.place.path if kind is None else event.place.path.removeprefix(kind.own).lstrip(".")
        of = component_of(names[0] if names else event.place.path)
        with self.among_experts(any(map(self.of_experts, names))):
            self.ops(event, reads, made, weights, of, f"{path}." if path else "")
            if lent:
                self.borrow(lent)
        return made[0]

    def inside(self, name: str, kind: Kind | None) -> bool:
        """Whether a parameter stands in the layer at hand."""
        return kind is not None and name.startswith(kind.own)

    def borrow(self, lent: list[str]) -> None:
        """The op that was recorded last reads parameters that stand in a layer of another kind, where they count."""
        op = self.t.body[-1]
        assert isinstance(op, Op)
        weights = tuple(self.weight(name, None) for name in lent)
        trained = sum((weight.elements for weight in weights if weight.trainable), start=0)
        whole = sum((weight.elements for weight in weights), start=0)

        def moves() -> Moves:
            own = op.moved()
            return replace(own, weight_reads=op.weights_read + whole, weight_grads=op.weight_gradients + trained)

        live = op.live or bool(trained)
        self.t.body[-1] = replace(op, moves=moves, live=live)

    @contextmanager
    def among_experts(self, really: bool) -> Iterator[None]:
        """What is recorded inside has weights of routed experts, of which a token visits some."""
        if not really or self.experts is None:
            yield
            return
        with self.t.part("experts.{}", copies=self.experts.copies, active=self.experts.active, expert=True):
            yield

    def ops(
        self,
        event: Event,
        reads: tuple[Tensor, ...],
        made: tuple[Tensor, ...],
        weights: tuple[Weight, ...],
        of: Component,
        where: str,
    ) -> None:
        if event.works[0].function == "scores":
            self.attention(event, made, weights, of, where)
            return
        (work,) = event.works
        fields: dict[str, Any] = {}
        if work.operands:
            operands = [event.reads[i] for i in work.operands]
            back = work.flops if work.back is None else work.back
            back *= id(event) not in self.untrained
            fields["backward"] = sum(x is not None and x.grad for x in operands) * back
            if work.function == "matmul" and not any(x is not None and x.weight is not None for x in operands):
                work = between_activations(work)
        if work.rows is not None and weights and len(weights[0].shape) == 2:
            fields["rows"] = work.rows
        self.t.op(
            f"{where}{work.name}",
            work.kind,
            work.function,
            reads,
            made,
            weights=weights,
            of=of,
            flops=work.flops,
            shape=work.shape,
            moves=moves_of(work, reads, made, weights),
            **fields,
        )

    def attention(
        self, event: Event, made: tuple[Tensor, ...], weights: tuple[Weight, ...], of: Component, where: str
    ) -> None:
        """Scores, softmax and values of one kernel, whose pairs are counted as the load says."""
        q, k, v = (self.tensor(x) for x in event.reads[:3] if x is not None)
        scores, _, values = event.works
        shape = scores.shape
        assert isinstance(shape, Attend)
        rows, grad = shape.groups * shape.heads * shape.queries, q.grad or k.grad
        square, soft = (Tensor(rows, shape.keys, grad, "tensor", inside="sdpa") for _ in range(2))

        def product(work: Work, given: tuple[Tensor, Tensor], out: Tensor) -> None:
            flops = seen_pairs(work.flops, shape, self.scores)
            back = 0 if id(event) in self.untrained else sum(x.grad for x in given) * flops
            name = f"{where}{work.name}"
            more: dict[str, Any] = {"flops": flops, "backward": back, "shape": work.shape}
            more["weights"] = weights if work is scores else ()
            self.t.op(name, "attention", work.function, given, (out,), of=of, **more)

        product(scores, (q, k), square)
        self.t.op(f"{where}softmax", "elementwise", "softmax", (square,), (soft,), of=of)
        product(values, (soft, v), made[0])

    def tensor(self, x: Seen) -> Tensor:
        """The tensor that a call reads: a view where it is not as large as what was made."""
        base = self.made(x)
        return base if base.elements == x.elements else base.view(*sides(x))

    def made(self, x: Seen) -> Tensor:
        known = self.found.get(x.storage)
        if known is None:
            known = self.found[x.storage] = Tensor(*sides(x), x.storage in self.grads, wide=x.wide)
        return known

    def weight(self, name: str, kind: Kind | None) -> Weight:
        """A parameter, of one expert where it holds all of them."""
        shape, expert = self.shapes[name], self.of_experts(name)
        key = name
        if kind is not None and name.startswith(kind.own):
            key = f"{kind.path}.{name[len(kind.own) :]}"
        key, shape = (f"{key}.{{}}", shape[1:]) if expert else (key, shape)
        return Weight(f"/{key}", shape, component_of(name), name not in self.frozen)

    def of_experts(self, name: str) -> bool:
        """Whether a parameter holds a matrix or vector for each routed expert."""
        own = self.experts is not None and component_of(name) == "routed_expert"
        return own and self.experts is not None and self.shapes[name][:1] == (self.experts.copies,)

    def unread(self, kind: Kind | None = None) -> None:
        """Parameters that this pass does not read weigh all the same. kind: those of its first layer alone."""
        for name in sorted(self.shapes.keys() - self.read):
            if kind is not None and not name.startswith(kind.own):
                continue
            self.read.add(name)
            weight = self.weight(name, kind)
            with self.among_experts(self.of_experts(name)):
                self.t.op(
                    "not_read",
                    "gather",
                    "other",
                    (),
                    (),
                    weights=(weight,),
                    of=weight.component,
                    live=False,
                    moves=lambda: Moves(weight_reads=0, weight_grads=0),
                )
