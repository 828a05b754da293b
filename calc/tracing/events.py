"""What a pass was seen to do, without any of its numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

from calc.tracing.aten import Work


@dataclass(frozen=True, slots=True)
class Seen:
    """A tensor of a call. storage: which memory it is in, by number. weight: the parameter that it is, or is a view or
    a copy of; own: whether it is the parameter's own memory. real: whether it holds numbers, as those of positions."""

    storage: int
    shape: tuple[int, ...]
    elements: int
    grad: bool
    weight: str | None = None
    own: bool = False
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call stands: the path of the innermost module, and of what layer it is part of: of which list, its number
    there and how often that layer had been entered; None outside of layers."""

    path: str
    layer: tuple[str, int, int] | None


@dataclass(frozen=True, slots=True)
class Event:
    """One call: the ops that stand for it, the tensors that it reads, in the arguments' order with None for what is no
    tensor, and those that it makes."""

    place: Place
    works: tuple[Work, ...]
    reads: tuple[Seen | None, ...]
    makes: tuple[Seen, ...]


@dataclass(frozen=True, slots=True)
class Keeping:
    """What autograd keeps: a storage of so many bytes in a format, met first at a place, by the op named."""

    place: Place
    op: str
    storage: int
    bytes: int
    dtype: str
    grad: bool


@dataclass(slots=True)
class Capture:
    """One pass. entered: what each layer that was entered was given first, by the layer. logits: the storage of the
    result that stands for the next token, its bytes and format; None where there is none. results: the storages of all
    that the pass returns."""

    events: list[Event] = field(default_factory=list)
    saved: list[Keeping] = field(default_factory=list)
    entered: dict[tuple[str, int, int], Keeping] = field(default_factory=dict)
    logits: Keeping | None = None
    results: frozenset[int] = frozenset()

    def reached(self) -> frozenset[int]:
        """Places of the calls that gradients of the result come back to."""
        ends = set(self.results) if self.logits is None else {self.logits.storage}
        found: set[int] = set()
        for i, event in reversed(list(enumerate(self.events))):
            if any(x.storage in ends for x in event.makes):
                found.add(i)
                reads = [x for x in event.reads if x is not None]
                # Within a torch.autograd.Function nothing needs a gradient, and what it was given does.
                ends |= {x.storage for x in reads if x.grad} or {x.storage for x in reads}
        return frozenset(found)
