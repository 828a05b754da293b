"""Which recomputation a training takes where nobody says it: the least that fits."""

from __future__ import annotations

from collections.abc import Iterator

from calc.errors import Refused
from calc.memory.totals import most_needed, training_ranks
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


def training_peak(spec: ModelSpec, run: Run) -> int | None:
    """The most bytes of any GPU while `run` trains; None where it is not known what its layers keep, as every so many
    of them in the closed form of `megatron`."""
    try:
        return int(most_needed(training_ranks(spec, run)).peak)
    except Refused:
        return None


def least_that_fits(spec: ModelSpec, run: Run, budget: int) -> Run | None:
    """The first of `choices` whose peak is known to be within `budget` bytes of a GPU. What the host holds is the same
    under all of them, and decides none."""
    for each in choices(run):
        peak = training_peak(spec, each)
        if peak is not None and peak <= budget:
            return each
    return None
