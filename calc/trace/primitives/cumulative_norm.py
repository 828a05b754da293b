"""A norm over the channels and values of all steps so far (Gemma 3n's ears).

Source: transformers 5.23, models/gemma3n/modeling_gemma3n.py, Gemma3nAudioCumulativeGroupNorm.
"""

from __future__ import annotations

from calc.sizes import Size
from calc.trace.recorder import Recorder
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


def cumulative_norm(t: Recorder, name: str, x: Tensor, steps: Size) -> Tensor:
    """x [steps * values, channels] less the mean of all steps up to its own, divided by their deviation, times a weight
    [channels]. steps: of all sequences.

    Written out in fp32: kept are how many numbers each step's mean is of, differences from the mean twice, each step's
    factor, what the weight multiplies, and ones in place of padding's zeros.
    """
    weight = t.weight(f"{name}.weight", x.width, of="norm")
    y = t.made(x.rows, x.width, x, weights=(weight,), split=x.split)

    def keeps(tape: Tape, read: Storage) -> Storage:
        tape.written_out("a norm over all steps so far")
        with tape.region("norm", read):
            wide = tape.cast(read, "fp32")
            normed = tape.like(wide)
            if wide.grad:
                tape.keep(Storage(steps, "fp32", False), "counts")
                tape.keep(tape.like(wide), "difference")
                tape.keep(tape.like(wide), "difference of the product")
                tape.keep(Storage(steps, "fp32"), "deviation")
                if tape.settings.stream != "fp32":
                    tape.keep(Storage(weight.elements, "fp32", False, "none"), "weight")
            if weight.trainable:
                tape.keep(normed, "normed")
            made = Storage(wide.elements, "fp32", wide.grad or weight.trainable, wide.split)
            if made.grad:
                tape.keep(Storage(wide.elements, "fp32", False, wide.split), "ones")
            return tape.cast(made, read.dtype)

    t.op(name, "norm", "layernorm", (x,), (y,), weights=(weight,), of="norm", keeps=keeps)
    return y
