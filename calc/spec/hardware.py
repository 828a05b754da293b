"""One device of the hardware catalogue: what its maker or a measurement says of it, each figure with its source."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Annotated, Any, ClassVar

from pydantic import Field, field_validator

from calc.errors import Refused
from calc.sizes import exact_div
from calc.spec.fields import Node
from calc.units import parse_amount


class Source(Node):
    """Where a figure was read.

    where: the table or section. url: of the page, or of the document whose copy was opened. read: the day of reading.
    confirmed: whether an opened page shows the figure; if not, it was written down from memory of the document.
    """

    document: str = Field(min_length=1)
    where: str = Field(min_length=1)
    url: str = Field(pattern=r"https?://\S+")
    read: date
    confirmed: bool


class Fact(Node):
    """One figure. note: how it was read, where it is not simply printed."""

    unit: ClassVar[str] = ""
    amount: ClassVar[str] = ""
    """What `calc.units.parse_amount` reads the value as; empty for a plain whole number."""

    value: Annotated[int, Field(gt=0)]
    source: Source
    note: str = ""

    @field_validator("value", mode="before")
    @classmethod
    def _with_its_unit(cls, value: Any) -> Any:
        if not cls.amount:
            return value
        if not isinstance(value, str):
            raise Refused("value", f"text with a unit of {cls.amount}", value)
        return parse_amount(value, cls.amount, "value")


class Capacity(Fact):
    """Bytes."""

    unit = "B"
    amount = "bytes"


class Bandwidth(Fact):
    """Bytes a second."""

    unit = "B/s"
    amount = "bytes"


class Link(Bandwidth):
    """Bytes a second of all links of one device, both directions added up, as makers print it."""

    name: str


class Rate(Fact):
    """Floating-point operations a second, a multiply-add as two."""

    unit = "FLOP/s"
    amount = "FLOP"


class IntegerRate(Rate):
    """Integer operations a second, a multiply-add as two."""

    unit = "OP/s"


class Watts(Fact):
    """Watts."""

    unit = "W"


class Peaks(Node):
    """The highest rate of dense matrix products by the dtype of their factors, sums in fp32, int32 or fp64.

    Never the rate that needs half of the elements to be zero. None: the device has no such units, or none is published.
    """

    fp64: Rate | None = None
    fp32: Rate | None = None
    tf32: Rate | None = None
    bf16: Rate | None = None
    fp16: Rate | None = None
    fp8: Rate | None = None
    int8: IntegerRate | None = None
    fp4: Rate | None = None


class Device(Node):
    """One GPU or TPU chip.

    memory: on the board, its maker's GB read as 10^9 or 2^30 bytes, as a note says. reported: what the driver or the
    compiler grants a program. bandwidth: of that memory. link: to other devices. host: to the CPU. domain: GPUs that
    the fast links join, where that is not a node of eight. cores: SMs, compute units or TensorCores. sram: of one core,
    what a program may lay out itself. l2, l3: of the whole device. power: the board's limit. aliases: other names, the
    one that torch gives among them. fp8_block: elements that share a scale where products of fp8 apply it themselves
    (MXFP8), which then take any layout; None where they do neither. shared: whether its memory is the system's, so that
    nobody can promise all of it.
    """

    name: str
    title: str
    vendor: str
    architecture: str
    aliases: tuple[str, ...] = ()
    shared: bool = False
    memory: Capacity
    reported: Capacity | None = None
    bandwidth: Bandwidth
    peaks: Peaks
    link: Link | None = None
    host: Link | None = None
    domain: Fact | None = None
    cores: Fact | None = None
    sram: Capacity | None = None
    l2: Capacity | None = None
    l3: Capacity | None = None
    power: Watts | None = None
    fp8_block: Fact | None = None

    @property
    def usable(self) -> int:
        """Bytes that a program can hope for: what is reported, else what is on the board."""
        return (self.reported or self.memory).value

    @property
    def link_one_way(self) -> int | None:
        """Bytes a second to other devices in one direction."""
        return exact_div(self.link.value, 2) if self.link else None

    def peak(self, dtype: str) -> int:
        """Operations a second of dense matrix products of `dtype`. Errors: Refused where no figure is known."""
        known = self.known_peaks
        if dtype not in known:
            raise Refused("dtype", f"one that {self.name} has a published peak for: {', '.join(known)}", dtype)
        return known[dtype].value

    @property
    def known_peaks(self) -> dict[str, Rate]:
        """The peaks that are known, by dtype."""
        found = {name: getattr(self.peaks, name) for name in Peaks.model_fields}
        return {name: rate for name, rate in found.items() if rate is not None}

    def facts(self) -> Iterator[tuple[str, Fact]]:
        """Every figure with its name; a peak's name is `peaks.` and its dtype."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, Fact):
                yield name, value
            elif isinstance(value, Peaks):
                yield from ((f"peaks.{dtype}", rate) for dtype, rate in self.known_peaks.items())

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources of all figures, each once, as they come."""
        return tuple(dict.fromkeys(fact.source for _, fact in self.facts()))

    @property
    def unconfirmed(self) -> tuple[str, ...]:
        """Names of the figures that no opened page shows."""
        return tuple(name for name, fact in self.facts() if not fact.source.confirmed)
