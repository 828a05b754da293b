"""What mixers with a state in place of keys and values have in common: a short convolution, factors spread out."""

from __future__ import annotations

from calc.errors import Refused
from calc.load import Load
from calc.saved.tape import Tape, Tensor
from calc.sizes import Size


def short_convolution(
    tape: Tape, x: Tensor, channels: Size, taps: Size, load: Load, *, activated: bool = True
) -> Tensor:
    """SiLU of a filter for each channel over [batch, seq, channels]; not activated: that filter's result.

    It keeps what it reads, and under autocast the filters' cast; SiLU what comes out, the overhang of taps - 1 tokens
    included, which is cut off as a view.
    """
    s = tape.settings
    grad = x.grad or not s.frozen
    overhanging = Tensor(load.batch * channels * (load.seq + taps - 1), s.dtype, grad, "tensor")
    part = overhanging.part(load.tokens * channels)
    out = Tensor(load.tokens * channels, s.dtype, grad, "tensor") if activated else part
    with tape.at("conv"):
        if not grad:
            return out
        tape.keep(tape.cast(x, s.dtype) if s.autocast else x, "input")
        if s.autocast:
            tape.keep(Tensor(channels * taps, s.dtype, False, "none"), "cast weight")
        if activated:
            with tape.region("activation", x):
                tape.keep(overhanging, "overhanging")
    return out


def spread(tape: Tape, a: Tensor, b: Tensor, elements: Size) -> Tensor:
    """a * b, each perhaps broadcast: keeps each where the other needs a gradient."""
    return tape.product(a, b, elements, casts=False)


def scaled(tape: Tape, x: Tensor, elements: Size) -> Tensor:
    """x in fp32 times a parameter of so many elements: keeps x where that is trained, and a copy of it in fp32 unless
    it is in fp32 itself."""
    if tape.settings.stream != "fp32" and x.grad:
        tape.keep(Tensor(elements, "fp32", False, "tensor"), "factor")
    return tape.weighed(x)


def negative_exponential(tape: Tape, elements: Size) -> Tensor:
    """-exp of a parameter, how fast a state fades."""
    s = tape.settings
    made = Tensor(elements, "fp32", not s.frozen, "tensor")
    return tape.like(tape.reads_result(made))


def between(tape: Tape, n: Size, elements: Size, grad: bool) -> Tensor:
    """What is left at each of n places of what came in at those before: keeps which are not, and the factors.

    grad: whether these need a gradient.
    """
    if grad:
        tape.keep(Tensor(n * n, "bool", False, "none"), "what comes after")
    return tape.reads_result(Tensor(elements, "fp32", grad, "tensor"))


def check(tape: Tape, block: str) -> None:
    """Errors: Refused where one kernel is to compute what is known operation by operation alone."""
    if tape.settings.fused:
        raise Refused("execution", f"eager or sdpa, of which it is known what {block} keeps", tape.settings.execution)
