"""The kernels of one pass, before anybody asks how long they take."""

from __future__ import annotations

from collections.abc import Iterator

from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.time.kernels.kernel import Kernel
from calc.time.step.operations import Operations
from calc.time.step.record import record_of


def operations(spec: ModelSpec, run: Run) -> Iterator[Kernel]:
    """Those of all layers on one rank: forward, and in training what is recomputed and what goes back."""
    laid = Operations(run, record_of(spec, run), gpu=True)
    for each in laid.chain_runs():
        yield from laid.kernels(each)
