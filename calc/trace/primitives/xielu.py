"""xIELU, an activation whose slopes on either side of zero are learned."""

from __future__ import annotations

from calc.sizes import Size
from calc.trace.footprint import Footprint
from calc.trace.op import Weight
from calc.trace.recorder import Recorder
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor

LIVE = 4
"""Tensors of its input's size at once where transformers writes it out, beside a byte a number of which side it is on:
one side's result, and of the other's sum two terms and what they make."""


def xielu(t: Recorder, name: str, x: Tensor) -> Tensor:
    """Above zero a_p * x**2 + beta * x, else a_n * (expm1(min(x, eps)) - x) + beta * x, beta = 0.5, number by number.

    a_p = softplus(alpha_p) and a_n = beta + softplus(alpha_n), a parameter each (Huang and Schlag 2024,
    arXiv:2411.13010, section 3; transformers 5.23, activations.py, XIELUActivation, without the CUDA kernel).
    """
    weights = tuple(t.weight(f"{name}.{key}", 1) for key in ("alpha_p", "alpha_n"))
    y = t.made(x.rows, x.width, x, weights=weights, split=x.split)

    def live_bytes(footprint: Footprint) -> Size:
        if footprint.compiled:
            return footprint.of(y)
        return LIVE * footprint.of(y) + footprint.of(y) // footprint.width

    t.op(
        name,
        "elementwise",
        "xielu",
        (x,),
        (y,),
        weights=weights,
        keeps=lambda tape, read: _saved(tape, weights, read),
        live_bytes=live_bytes,
    )
    return y


def _saved(tape: Tape, weights: tuple[Weight, ...], x: Storage) -> Storage:
    """A slope is a vector of one number in the parameters' format, which a product with it takes on where that is
    wider; beta and eps are numbers, and widen nothing."""
    with tape.region("activation", x):
        if tape.settings.fused:
            return tape.reads_input(x)
        above, below = (Storage(1, tape.settings.stream, weight.trainable, "none") for weight in weights)
        beta, eps = (Storage(1, tape.settings.stream, False, "none") for _ in range(2))
        line = tape.cast(tape.times(x, beta), x.dtype)
        squared = tape.like(tape.times(tape.times(x, above), x), line)
        if x.grad:
            tape.keep(x, "input")
            tape.keep(eps, "bound")
        fallen = tape.reads_result(x, dtype="fp32" if tape.settings.autocast_on_gpu else x.dtype)
        curved = tape.like(tape.times(tape.like(fallen, x), below), line)
        made = tape.like(squared, curved)
        if made.grad:
            tape.keep(Storage(x.elements, "bool", False, x.split), "side of zero")
        return made
