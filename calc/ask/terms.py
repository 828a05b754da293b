"""The terms of each quantity: folds over the tree of ops, or a convention's own formula."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from calc import conventions
from calc.ask.quantity import Breakdown
from calc.errors import Refused
from calc.quantities.parameters import parameters
from calc.quantities.weights import weight_bytes
from calc.sizes import Size
from calc.spec import ModelSpec
from calc.spec.run import Phase, Run


def params(spec: ModelSpec, run: Run) -> Breakdown:
    own = conventions.params(spec, run.convention)
    if own is None:
        return parameters(spec, mtp=run.mtp)
    if run.mtp:
        raise Refused("mtp", f"false under {run.convention}, whose formula has no such modules", True)
    return own


def active(spec: ModelSpec, run: Run) -> Breakdown:
    return parameters(spec, active=True, mtp=run.mtp)


def trainable(spec: ModelSpec, run: Run) -> Breakdown:
    return parameters(spec, trainable=True, mtp=run.mtp)


def flops(phase: Phase) -> Callable[[ModelSpec, Run], Breakdown]:
    def compute(spec: ModelSpec, run: Run) -> Breakdown:
        counted = conventions.flops(spec, run if run.phase == phase else run.changed(phase=phase))
        return {"linear": counted.linear, "attention": counted.attention, "other": counted.other}

    return compute


def weights(spec: ModelSpec, run: Run) -> Breakdown:
    return weight_bytes(spec, run.dtype)


def memory_total(spec: ModelSpec, run: Run) -> Breakdown:
    from calc.memory.totals import total_terms  # most questions are not about memory, and it is long to load

    return total_terms(spec, run)


def total_widths(run: Run) -> Mapping[str, int]:
    from calc.memory.widths import total_widths  # as above

    return total_widths(run)


def total_in_widths(spec: ModelSpec, run: Run, widths: Mapping[str, Size]) -> Breakdown:
    from calc.memory.widths import total_in_widths  # as above

    return total_in_widths(spec, run, widths)


def memory_peak(spec: ModelSpec, run: Run) -> Breakdown:
    from calc.memory.totals import peak_terms

    return peak_terms(spec, run)


def traffic(phase: Phase) -> Callable[[ModelSpec, Run], Breakdown]:
    def compute(spec: ModelSpec, run: Run) -> Breakdown:
        from calc.quantities.traffic import BY_PHASE  # only asked for by its own name

        return BY_PHASE[phase](spec, run if run.phase == phase else run.changed(phase=phase))

    return compute


def traffic_widths(run: Run) -> Mapping[str, int]:
    from calc.quantities.traffic import traffic_widths as widths_of  # as above

    return widths_of(run)


def traffic_in(phase: Phase) -> Callable[[ModelSpec, Run, Mapping[str, Size]], Breakdown]:
    def compute(spec: ModelSpec, run: Run, widths: Mapping[str, Size]) -> Breakdown:
        from calc.quantities.traffic import BY_PHASE, formats_of  # as above

        formats = replace(formats_of(run), width=widths["b_dtype"])
        return BY_PHASE[phase](spec, run if run.phase == phase else run.changed(phase=phase), formats)

    return compute
