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
    """Elements by component, or the terms of the convention's own formula.

    Errors: Refused for modules of further tokens under a convention that has none, and for a model that it cannot read.
    """
    own = conventions.params(spec, run.convention)
    if own is None:
        return parameters(spec, mtp=run.mtp)
    if run.mtp:
        raise Refused("mtp", f"false under {run.convention}, whose formula has no such modules", True)
    return own


def active(spec: ModelSpec, run: Run) -> Breakdown:
    """Elements that one token visits, by component: of routed experts top_k of n_experts."""
    return parameters(spec, active=True, mtp=run.mtp)


def trainable(spec: ModelSpec, run: Run) -> Breakdown:
    """Elements that are trained, by component: an adapter's where there is one."""
    return parameters(spec, trainable=True, mtp=run.mtp)


def flops(phase: Phase) -> Callable[[ModelSpec, Run], Breakdown]:
    """How to count the FLOPs of a phase under the run's convention: of weights, of scores and values, and others.

    What it gives raises Refused for a model, phase or checkpointing that the convention does not count.
    """

    def compute(spec: ModelSpec, run: Run) -> Breakdown:
        counted = conventions.flops(spec, run if run.phase == phase else run.changed(phase=phase))
        return {"linear": counted.linear, "attention": counted.attention, "other": counted.other}

    return compute


def weights(spec: ModelSpec, run: Run) -> Breakdown:
    """Bytes of all parameters by component in the run's number format. Errors: Refused for an unknown format."""
    return weight_bytes(spec, run.dtype)


def memory_total(spec: ModelSpec, run: Run) -> Breakdown:
    """Bytes of the rank with the highest peak, by term. Errors: Refused for a run that does not divide the model."""
    from calc.memory.totals import total_terms  # most questions are not about memory, and it is long to load

    return total_terms(spec, run)


def total_widths(run: Run) -> Mapping[str, int]:
    """Bytes of one number by the names of their symbols, of the terms of `memory_total` in one format alone."""
    from calc.memory.widths import total_widths  # as above

    return total_widths(run)


def total_in_widths(spec: ModelSpec, run: Run, widths: Mapping[str, Size]) -> Breakdown:
    """`memory_total` with these, perhaps symbols, in place of the bytes of `total_widths`."""
    from calc.memory.widths import total_in_widths  # as above

    return total_in_widths(spec, run, widths)


def memory_peak(spec: ModelSpec, run: Run) -> Breakdown:
    """Bytes of the most that is live at once on any rank. Errors: as `memory_total`."""
    from calc.memory.totals import peak_terms

    return peak_terms(spec, run)


def traffic(phase: Phase) -> Callable[[ModelSpec, Run], Breakdown]:
    """How to count the bytes that a phase reads and writes in the GPU's memory, by what they are of.

    What it gives raises Refused for a model that does not decode, and for quantized matrices that another op reads.
    """

    def compute(spec: ModelSpec, run: Run) -> Breakdown:
        from calc.quantities.traffic import BY_PHASE  # only asked for by its own name

        return BY_PHASE[phase](spec, run if run.phase == phase else run.changed(phase=phase))

    return compute


def traffic_widths(run: Run) -> Mapping[str, int]:
    """Bytes of one number by the name of its symbol, where weights, activations and cache are in one format."""
    from calc.quantities.traffic import traffic_widths as widths_of  # as above

    return widths_of(run)


def traffic_in(phase: Phase) -> Callable[[ModelSpec, Run, Mapping[str, Size]], Breakdown]:
    """As `traffic`, with a width, perhaps a symbol, in place of the bytes of `traffic_widths`."""

    def compute(spec: ModelSpec, run: Run, widths: Mapping[str, Size]) -> Breakdown:
        from calc.quantities.traffic import BY_PHASE, formats_of  # as above

        formats = replace(formats_of(run), width=widths["b_dtype"])
        return BY_PHASE[phase](spec, run if run.phase == phase else run.changed(phase=phase), formats)

    return compute
