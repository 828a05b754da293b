"""The largest values of the vectors that belong to each patch."""

from __future__ import annotations

from calc.sizes import Size
from calc.trace.recorder import Recorder
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


def patch_max(t: Recorder, name: str, x: Tensor, rows: Size) -> Tensor:
    """x [tokens, width] -> [rows, width], `rows` patches in all. Going back finds where each value came from by x, the
    result, the zeros that it was laid over, and the number of each token's patch, all of which are kept."""
    y = t.made(rows, x.width, x)

    def keeps(tape: Tape, read: Storage) -> Storage:
        made = Storage(y.elements, read.dtype, read.grad)
        if read.grad:
            tape.keep(read, "input")
            tape.keep(Storage(y.elements, read.dtype, False), "zeros")
            tape.keep(Storage(x.rows, "int64", False, "none"), "patches of tokens")
            tape.keep(made, "result")
        return made

    t.op(name, "elementwise", "pool", (x,), (y,), of="other", keeps=keeps)
    return y
