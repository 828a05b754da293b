"""What one kind of rank holds, term by term, in all and at every moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from calc.sizes import Size, largest


@dataclass(frozen=True, slots=True)
class Rank:
    """One kind of rank: its bytes by term, and what is live of each at every moment, in order.

    moments: beside the terms, `temporaries` that are freed again before a step ends. passes: of a server, the names of
    the moments of each of its passes.
    """

    stage: str
    terms: Mapping[str, Size]
    moments: Mapping[str, Mapping[str, Size]]
    passes: Mapping[str, tuple[str, ...]] = field(default_factory=dict, kw_only=True)

    @property
    def timeline(self) -> Mapping[str, Size]:
        """Bytes live at every moment."""
        return {name: sum(live.values()) for name, live in self.moments.items()}

    @property
    def total(self) -> Size:
        """The sum of the terms, whenever each is live."""
        return sum(self.terms.values())

    @property
    def peak(self) -> Size:
        """The most that is live at once."""
        return largest(self.timeline.values())

    def during(self, name: str) -> Rank:
        """The same rank while one of its passes runs."""
        return replace(self, moments={at: self.moments[at] for at in self.passes[name]})


class Between(NamedTuple):
    """Bytes that a stage holds of what the stages of a pipeline exchange (`calc.memory.between_stages`).

    buffers: there throughout. each: what it gives the next of one micro-batch. sent: results of the first piece of the
    model, of all micro-batches in flight, which nothing else keeps. logits: of the micro-batch at hand, which the loss
    does not keep but the schedule does.
    """

    buffers: Size = 0
    each: Size = 0
    sent: Size = 0
    logits: Size = 0


NOTHING = Between()


@dataclass(frozen=True, slots=True)
class Activations:
    """Bytes on one rank.

    layers: of all layers, micro-batches in flight included. outside: of embeddings and final norm. logits: of the
    loss. again: the most that one layer makes anew in backward. widest: the largest single tensor of a layer.
    scratch: what the loss takes for a moment beyond what is kept. freed: the logits themselves, where a wider copy of
    them takes over; nothing that backward of the loss makes fits in their place. moved: what layers keep on the host,
    which is not in `layers`. ends: what stands behind the layers and in the loss of micro-batches that wait for others
    to go forward, beside the one at hand (GPipe's last stage). between: what the stages of a pipeline exchange.
    """

    layers: Size
    outside: Size
    logits: Size
    again: Size
    widest: Size
    scratch: Size
    freed: Size
    moved: Size = 0
    ends: Size = 0
    between: Between = NOTHING

    @property
    def total(self) -> Size:
        return self.in_flight + self.between.buffers

    @property
    def in_flight(self) -> Size:
        """What comes and goes with micro-batches."""
        return self.layers + self.outside + self.ends + self.between.sent
