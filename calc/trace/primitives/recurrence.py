"""What mixers with a state in place of keys and values have in common: how it fades, gates in fp32, factors."""

from __future__ import annotations

from typing import Literal

from calc.sizes import Size
from calc.trace.op import Weight
from calc.trace.primitives.activation import saved_by_activation
from calc.trace.primitives.arithmetic import weighed_by
from calc.trace.recorder import Recorder
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


def wide_gate(
    t: Recorder, name: str, function: Literal["silu", "sigmoid"], x: Tensor, gate: Tensor, *, wide: bool = False
) -> Tensor:
    """x * function(gate), computed in fp32. wide: whether it stays so; else it is cast to the format of products.

    Where everything is fused, one kernel keeps both as they are, and gives the format of products."""
    y = t.made(x.rows, x.width, x, gate, split="tensor")

    def keeps(tape: Tape, read: Storage, g: Storage) -> Storage:
        if tape.settings.fused:
            return tape.cast(tape.times(read, g), tape.settings.dtype)
        made = tape.times(tape.cast(read, "fp32"), saved_by_activation(tape, function, tape.cast(g, "fp32")))
        return made if wide else tape.cast(made, tape.settings.dtype)

    t.op(name, "elementwise", "swiglu", (x, gate), (y,), keeps=keeps)
    return y


def spread(tape: Tape, a: Storage, b: Storage, elements: Size) -> Storage:
    """a * b, each perhaps broadcast: keeps each where the other needs a gradient."""
    return tape.product(a, b, elements, casts=False)


def scaled_by(tape: Tape, x: Storage, weight: Weight) -> Storage:
    """x in fp32 times a parameter: keeps x where that is trained, and a copy of it in fp32 unless it is in fp32
    itself."""
    if tape.settings.stream != "fp32" and x.grad:
        tape.keep(Storage(weight.elements, "fp32", False, "tensor"), "factor")
    return weighed_by(tape, x, weight.trainable)


def negative_exponential(tape: Tape, weight: Weight) -> Storage:
    """-exp of a parameter, how fast a state fades."""
    return tape.like(exponential(tape, weight))


def exponential(tape: Tape, weight: Weight) -> Storage:
    """exp of a parameter."""
    return tape.reads_result(Storage(weight.elements, "fp32", weight.trainable, "tensor"))


def between(tape: Tape, n: Size, elements: Size, grad: bool) -> Storage:
    """What is left at each of n places of what came in at those before: keeps which are not, and the factors.

    grad: whether these need a gradient.
    """
    if grad:
        tape.keep(Storage(n * n, "bool", False, "none"), "what comes after")
    return tape.reads_result(Storage(elements, "fp32", grad, "tensor"))
