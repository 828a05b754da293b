"""What a run recomputes where the device that it is timed on has no room to keep all."""

from __future__ import annotations

from collections.abc import Iterator

from calc.memory.phases import PhaseMemory, phase_memory
from calc.spec import ModelSpec
from calc.spec.hardware import Device
from calc.spec.run import Run

EVERY = (8, 4, 2, 1)
"""Of so many layers one is computed again, the cheapest choice first."""


def room_of(spec: ModelSpec, run: Run, device: Device | None) -> PhaseMemory:
    """What a run takes on a device; a server needs no modules that predict further tokens."""
    run = run if run.trains else run.changed(mtp=False)
    return phase_memory(spec, run, None if device is None else device.usable)


def least_recomputed(spec: ModelSpec, run: Run, device: Device | None) -> Run:
    """`run` with the least recomputation that fits, where it names a stack or a cluster and does not say what is
    recomputed: none, or of every eighth, fourth, second, of every layer all but its input; the last where none fits.
    None where what layers keep is on the host.
    """
    given = {"checkpointing", "recompute"} & run.model_fields_set or run.offload == "activations"
    if given or not run.trains or (run.stack is None and run.cluster is None):
        return run
    found = run
    for found in _choices(run):
        fits = room_of(spec, found, device).fits
        if fits is None:
            return run
        if fits:
            break
    return found


def _choices(run: Run) -> Iterator[Run]:
    yield run
    for every in EVERY:
        yield run.changed(checkpointing="full", checkpoint_every=every)
