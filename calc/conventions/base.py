"""What a convention is: one documented formula for the FLOPs of a model, and whose it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from calc.quantities.flops import Flops
from calc.query import Checkpointing, Phase, Query
from calc.sizes import Size
from calc.spec.model import ModelSpec


def no_caveats(spec: ModelSpec) -> tuple[str, ...]:
    """For a convention that sees every part of every model."""
    return ()


@dataclass(frozen=True, slots=True)
class Convention:
    """One way of counting.

    title: one line. formula: in the names of `calc.symbols`. source: paper, equation or section, year.
    counts: what it reads and what it leaves out.
    count: FLOPs of the whole batch; it is only called for a phase in `phases` and, in training, a mode in
        `checkpointing` (`calc.conventions.flops` sees to that).
    params: what the convention calls N, where that is not simply every parameter of the model; else None.
    caveats: what of this model the formula does not see, one sentence each. It compares sizes, so they must be ints.
    """

    name: str
    title: str
    formula: str
    source: str
    counts: str
    count: Callable[[ModelSpec, Query], Flops]
    phases: tuple[Phase, ...]
    checkpointing: tuple[Checkpointing, ...] = ("none",)
    params: Callable[[ModelSpec], Size] | None = None
    caveats: Callable[[ModelSpec], tuple[str, ...]] = no_caveats
