"""An RMSNorm over the channels of a map, as timm writes it out.

Source: timm 1.0.31, timm/layers/fast_norm.py, rms_norm2d.
"""

from __future__ import annotations

from calc.trace.recorder import Recorder
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


def map_norm(t: Recorder, name: str, x: Tensor) -> Tensor:
    """x [places, channels] over the root of the mean of each place's squares, times a weight [channels].

    In x's format, not in fp32: kept are x, each place's factor and what the weight multiplies.
    """
    weight = t.weight(f"{name}.weight", x.width, of="norm")
    y = t.made(x.rows, x.width, x, weights=(weight,), split=x.split)

    def keeps(tape: Tape, read: Storage) -> Storage:
        tape.written_out("a norm over a map's channels")
        squares = tape.power(read)
        factor = tape.reads_result(Storage(x.rows, squares.dtype, squares.grad, x.split))
        normed = tape.times(read, factor)
        if weight.trainable:
            tape.keep(normed, "normed")
        wide = "fp32" if normed.dtype == "fp32" else tape.settings.stream
        return Storage(normed.elements, wide, normed.grad or weight.trainable, x.split)

    t.op(name, "norm", "rmsnorm", (x,), (y,), weights=(weight,), of="norm", keeps=keeps)
    return y
