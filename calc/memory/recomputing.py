"""Which recomputation a plan takes where nobody says it: the least that fits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from calc.errors import Refused
from calc.memory.verdict import verdict
from calc.spec import ModelSpec
from calc.spec.run import Run

EVERY = (8, 4, 2, 1)
"""Of so many layers one is computed again, the cheapest choice first."""


def left_open(run: Run) -> bool:
    """Whether nobody said what a training recomputes; where what layers keep is on the host, that is none."""
    return not ({"checkpointing", "recompute"} & run.model_fields_set) and run.offload != "activations"


def choices(run: Run) -> Iterator[Run]:
    """`run` as it is, then with more and more recomputation: of every eighth, fourth, second, of every layer all but
    its input."""
    yield run
    for every in EVERY:
        yield run.changed(checkpointing="full", checkpoint_every=every)


def least_that_fits(spec: ModelSpec, run: Run, budget: int) -> Run | None:
    """The first of `choices` whose peak is within `budget` bytes; None where none is known to be: what is
    refused is passed over, as every so many layers in the closed form of `megatron`."""
    for each in choices(run):
        with suppress(Refused):
            if verdict(spec, each).worst.peak <= budget:
                return each
    return None
