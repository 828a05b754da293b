"""What a quantity is: a name, a unit, its terms, and whose formula it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from calc.sizes import Size
from calc.spec import ModelSpec
from calc.spec.run import FLOPS_PHASES, Phase, Run

Breakdown = Mapping[str, Size]


@dataclass(frozen=True, slots=True)
class Quantity:
    """One thing a model costs.

    uses: the fields of a Run that change it. compute: its terms by name; the value is their sum. It raises Refused
    for a model or a run that its formula cannot read. source: whose formula it is, and source_of whose where that
    depends on the model. widths: bytes of the numbers that it counts, by the names of their symbols, and in_widths its
    terms with others in their place: a formula names them.
    """

    name: str
    unit: str
    meaning: str
    source: str
    uses: tuple[str, ...]
    compute: Callable[[ModelSpec, Run], Breakdown]
    source_of: Callable[[ModelSpec], str] | None = None
    widths: Callable[[Run], Mapping[str, int]] | None = None
    in_widths: Callable[[ModelSpec, Run, Mapping[str, Size]], Breakdown] | None = None

    @property
    def group(self) -> str:
        """What kind of cost it is: `params`, `flops`, `kv_cache`, `weights`, `traffic` or `memory`."""
        return self.name.partition(".")[0]

    @property
    def phase(self) -> Phase | None:
        """What runs, where the quantity's name says it."""
        phase = self.name.partition(".")[2]
        return next((each for each in FLOPS_PHASES if each == phase), None)


def sum_of(breakdown: Breakdown) -> Size:
    """The sum of the terms."""
    value: Size = 0
    for term in breakdown.values():
        value = value + term
    return value
