"""What a run recomputes where the device that it is timed on has no room to keep all."""

from __future__ import annotations

from calc.memory.phases import PhaseMemory, phase_memory
from calc.memory.recomputing import choices, least_that_fits, left_open, training_peak
from calc.spec import ModelSpec
from calc.spec.hardware import Device
from calc.spec.run import Run


def room_of(spec: ModelSpec, run: Run, device: Device | None) -> PhaseMemory:
    """What a run takes on a device; a server needs no modules that predict further tokens."""
    run = run if run.trains else run.changed(mtp=False)
    return phase_memory(spec, run, None if device is None else device.usable)


def least_recomputed(spec: ModelSpec, run: Run, device: Device | None) -> Run:
    """`run` with the least recomputation that fits, where it names a stack or a cluster and does not say what is
    recomputed; the most of the choices where none fits, and `run` as it is where that is not known.
    """
    if device is None or not (run.trains and left_open(run)) or (run.stack is None and run.cluster is None):
        return run
    least = least_that_fits(spec, run, device.usable)
    if least is not None:
        return least
    *_, most = choices(run)
    return run if training_peak(spec, most) is None else most
