"""A cluster: how many GPUs a node and a domain of fast links have, and what carries bytes beyond them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from calc.errors import Refused
from calc.sizes import Size, floor_div, minimum
from calc.spec.fields import Node
from calc.spec.hardware import Source
from calc.units import parse_amount, parse_rate


def _rate(value: Any, info: ValidationInfo) -> float:
    """Bytes a second, of text with its unit."""
    field = info.field_name or "rate"
    if not isinstance(value, str):
        raise Refused(field, "text with a unit, such as 400Gbps or 614.4GB/s", value)
    return parse_rate(value, field)


Rate = Annotated[float, Field(gt=0), BeforeValidator(_rate)]
"""Bytes a second, given as text."""


class Card(Node):
    """One network card. rate: bytes a second in one direction."""

    rate: Rate
    name: str
    source: Source


class Host(Node):
    """What the processors of one machine have. memory: bytes; bandwidth: of it, bytes a second, as many channels as
    there are at the rate that processors and modules promise. name: of the processors."""

    memory: Annotated[int, Field(gt=0)]
    bandwidth: Rate
    name: str
    source: Source

    @field_validator("memory", mode="before")
    @classmethod
    def _bytes(cls, value: Any) -> Any:
        if not isinstance(value, str):
            raise Refused("memory", "text with a unit, such as 2TB", value)
        return parse_amount(value, "bytes", "memory")


class Measured(Node):
    """One collective as it was measured among `ranks` GPUs, of which `near` stand in one domain: the seconds of each of
    so many bytes, as nccl-tests count them, both rising."""

    op: Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"]
    ranks: Annotated[int, Field(ge=2, le=2**20)]
    near: Annotated[int, Field(ge=1, le=2**20)]
    sizes: Annotated[tuple[Annotated[int, Field(gt=0, le=2**50)], ...], Field(min_length=2, max_length=1000)]
    seconds: tuple[Annotated[float, Field(gt=0, le=1e6)], ...]

    @model_validator(mode="after")
    def _whole(self) -> Measured:
        if len(self.seconds) != len(self.sizes) or list(self.sizes) != sorted(set(self.sizes)):
            raise Refused("sizes", "bytes in rising order, and seconds of each", self.op)
        if list(self.seconds) != sorted(self.seconds):
            raise Refused("seconds", "times that do not fall as messages grow", self.op)
        if self.near > self.ranks:
            raise Refused("near", f"at most ranks = {self.ranks}", self.near)
        return self


class Cluster(Node):
    """Many GPUs of one kind and the links between them.

    gpu: its name in the catalogue of devices. node: GPUs a machine. domain: GPUs that reach one another by the fast
    links of the device's own (NVLink, Infinity Fabric, ICI): a machine, a rack, or a whole torus. cards: of network, a
    machine, of which each GPU has its share; rings use all of them, each on its rail. oversubscription: of the network
    above, how many bytes a second of all cards go through one of its own; 1 where none is known. most: GPUs that one
    such cluster has where its maker says. measured: collectives, in place of what its links promise within a domain.
    host: None where nothing is known of it.
    """

    name: str
    title: str
    gpu: str
    node: Annotated[int, Field(gt=0, le=1024)]
    domain: Annotated[int, Field(gt=0, le=2**20)]
    cards: Annotated[int, Field(gt=0, le=1024)] = 1
    card: Card | None = None
    oversubscription: Annotated[float, Field(ge=1)] = 1.0
    most: Annotated[int, Field(gt=0)] | None = None
    fast: Source
    note: str = ""
    measured: tuple[Measured, ...] = ()
    host: Host | None = None

    @model_validator(mode="after")
    def _whole(self) -> Cluster:
        if self.domain < self.node and self.node % self.domain:
            raise Refused("domain", f"a divisor or a multiple of node = {self.node}", self.domain)
        if self.card is None and self.most is None:
            raise Refused("card", "a card, or `most` GPUs that need none", "neither")
        return self

    def __hash__(self) -> int:
        return hash((self.name, self.gpu, self.domain))

    @property
    def share(self) -> float | None:
        """Bytes a second of one GPU to those of other domains, in one direction; None where nothing leads there."""
        if self.card is None:
            return None
        return self.cards * self.card.rate / self.node / self.oversubscription

    def host_room(self, gpus: Size) -> Size | None:
        """Bytes of a machine's memory for each of its GPUs, of `gpus` in all, numbers or columns; None where nothing is
        known of it."""
        return None if self.host is None else floor_div(self.host.memory, minimum(self.node, gpus))

    def host_bandwidth(self, gpus: Size) -> Size | None:
        """The same of what its memory moves, bytes a second."""
        return None if self.host is None else self.host.bandwidth / minimum(self.node, gpus)

    @property
    def sources(self) -> tuple[Source, ...]:
        """Where its figures were read, each document once."""
        parts = [part.source for part in (self.card, self.host) if part is not None]
        return tuple(dict.fromkeys((self.fast, *parts)))
