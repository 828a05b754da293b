"""RG-LRU's recurrence: a sum of inputs that fades channel by channel, as fast as each token says."""

from __future__ import annotations

from calc.sizes import Size
from calc.spec.load import Load
from calc.trace.op import Cache, Moves
from calc.trace.recorder import Recorder
from calc.trace.shard import COLUMN
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


def gated_recurrence(
    t: Recorder, name: str, x: Tensor, input_gate: Tensor, recurrence_gate: Tensor, load: Load
) -> Tensor:
    """x and both gates ahead of their sigmoids [batch * seq, width] -> the same shape (De et al. 2024,
    arXiv:2402.19427, equations 1 to 4).

    Elementwise, 0 FLOPs. One kernel walks over the tokens; going back it does so again, and what it keeps is what it
    reads. Cache: one number of each channel.
    """
    width = x.width
    fade = t.weight("fade", width, shard=COLUMN)
    reads = (x, input_gate, recurrence_gate)
    y = t.made(x.rows, width, *reads, weights=(fade,), split="tensor")
    held: Size = load.batch * width

    def moves() -> Moves:
        return Moves(3 * x.elements, y.elements, state_reads=held if load.decode else 0, state_writes=held)

    def keeps(tape: Tape, *read: Storage) -> Storage:
        grad = fade.trainable or any(each.grad for each in read)
        made = Storage(y.elements, read[0].dtype, grad, y.split)
        with tape.region("attention", *read):
            if grad:
                for each, role in zip(read, ("input", "input gate", "recurrence gate"), strict=True):
                    tape.keep(each, role)
        return made

    t.op(
        name,
        "attention",
        "scan",
        reads,
        (y,),
        weights=(fade,),
        cache=Cache(recurrent=width, heads=width),
        moves=moves,
        keeps=keeps,
    )
    return y
