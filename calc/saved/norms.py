"""What norms keep."""

from __future__ import annotations

from calc.saved.tape import Tape, Tensor
from calc.sizes import Size, exact_div
from calc.spec import Norm


def norm(tape: Tape, name: str, spec: Norm, x: Tensor, vectors: Size, heads: Size | None = None) -> Tensor:
    """A norm of `vectors` vectors, whose elements are x's. heads: how many have a weight of their own.

    LayerNorm is one kernel: it keeps its input, and mean and deviation of every vector; a weight of several vectors is
    multiplied behind it, and keeps what it multiplies; one plus the weight is a tensor of its own, kept too. RMSNorm is
    written out in fp32 (transformers' LlamaRMSNorm): it keeps its input in fp32, every vector's factor, and what the
    weight multiplies, in the stream's format, or in fp32 where one plus the weight does (Gemma), and then that too.
    Fused, it keeps its input and the factors.
    """
    s = tape.settings
    with tape.at(name), tape.region("norm", x):
        if s.fused or spec.kind == "layernorm":
            several = spec.affine and heads is not None
            y = _kernel(tape, spec, x, vectors, affine=spec.affine and not several)
            return _weighed(tape, y) if several else y
        wide = tape.cast(x, "fp32")
        factor = tape.reads_result(Tensor(vectors, "fp32", tape.reads_input(wide).grad, x.split))
        y = tape.times(wide, factor)
        if not spec.affine:
            return tape.cast(y, x.dtype)
        if not spec.unit_offset:
            return _weighed(tape, tape.cast(y, x.dtype))
        if y.grad:
            # One plus the weight is a tensor of its own.
            width = exact_div(x.elements, vectors)
            tape.keep(Tensor(width if heads is None else width * heads, "fp32", False, "none"), "weight plus one")
        return tape.cast(tape.weighed(y), x.dtype)


def _weighed(tape: Tape, x: Tensor) -> Tensor:
    """x times the weight, in the wider of their formats."""
    y = tape.weighed(x)
    return tape.like(y, dtype="fp32") if tape.settings.autocast and y.dtype != "fp32" else y


def _kernel(tape: Tape, spec: Norm, x: Tensor, vectors: Size, *, affine: bool) -> Tensor:
    s = tape.settings
    y = tape.cast(x, "fp32") if s.autocast_on_gpu else x
    trains = affine and not s.frozen
    if y.grad or trains:
        tape.keep(y, "input")
        # A GPU's kernel keeps these in fp32 whatever it reads, and the CPU's in the format of the weights.
        own = "fp32" if s.device == "cuda" or (s.autocast and affine) else y.dtype
        for role in ("deviation", "mean")[: 2 if spec.kind == "layernorm" else 1]:
            tape.keep(Tensor(vectors, own, False, x.split), role)
        if spec.unit_offset and affine and not s.fused:
            dtype = "fp32" if s.autocast else y.dtype
            tape.keep(Tensor(exact_div(x.elements, vectors), dtype, False, "none"), "weight plus one")
    return Tensor(y.elements, y.dtype, y.grad or trains, y.split)
