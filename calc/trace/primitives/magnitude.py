"""Vectors brought to the length of another, gates of which most are cut to zero (both Gemma 3n), and vectors of one
length (ZAYA1)."""

from __future__ import annotations

from calc.sizes import Size
from calc.trace.recorder import Recorder
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


def matched(t: Recorder, name: str, x: Tensor, to: Tensor, each: Size) -> Tensor:
    """`each` vectors a row of x, scaled to the root mean square of `to` [rows, width]."""
    y = t.made(x.rows, x.width, x, to)

    def keeps(tape: Tape, read: Storage, like: Storage) -> Storage:
        goal = tape.reads_result(_mean(tape.power(like), to.rows))
        own = tape.reads_result(tape.reads_input(_mean(tape.power(read), x.rows * each)))
        if goal.grad or own.grad:
            tape.keep(goal, "length")
            tape.keep(own, "length")
        ratio = Storage(own.elements, tape.like(own, goal).dtype, goal.grad or own.grad, "none")
        return tape.times(read, ratio)

    t.op(name, "elementwise", "scale", (x, to), (y,), keeps=keeps)
    return y


def brought_to_length(t: Recorder, name: str, x: Tensor, each: Size) -> Tensor:
    """Each of `each` vectors of a row times a constant over its length: one kernel.

    It is kept, with its lengths, what divides by them, and what that makes of the constant (torch.norm, a quotient).
    """
    y = t.made(x.rows, x.width, x, split=x.split)

    def keeps(tape: Tape, read: Storage) -> Storage:
        wide = tape.cast(read, "fp32") if tape.settings.autocast_on_gpu else read
        lengths = tape.reads_result(Storage(x.rows * each, wide.dtype, tape.reads_input(wide).grad))
        return tape.times(read, tape.like(tape.reads_result(lengths)))

    t.op(name, "elementwise", "l2norm", (x,), (y,), of="other", keeps=keeps)
    return y


def _mean(squares: Storage, vectors: Size) -> Storage:
    return Storage(vectors, squares.dtype, squares.grad, "none")


def sparse_gate(t: Recorder, name: str, x: Tensor) -> Tensor:
    """relu(x - cut), where the cut is so many standard deviations of each row beyond its mean.

    What of it is kept is refused where everything is fused.
    """
    y = t.made(x.rows, x.width, x, split=x.split)

    def keeps(tape: Tape, read: Storage) -> Storage:
        tape.written_out("a gate of which most is cut")
        with tape.region("activation", read):
            if read.grad:
                tape.keep(read, "input")
                tape.keep(Storage(x.rows, read.dtype, True), "deviation")
            return tape.reads_result(tape.like(read))

    t.op(name, "elementwise", "relu", (x,), (y,), keeps=keeps)
    return y
