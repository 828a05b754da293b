"""RWKV-4's mean of all values so far, weighed by exponentials of their keys that fade channel by channel."""

from __future__ import annotations

from calc.sizes import Size
from calc.spec.load import Load
from calc.trace.op import Cache, Moves
from calc.trace.recorder import Recorder
from calc.trace.shard import COLUMN
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor

STATE = 3
"""Numbers of a channel that later tokens need: weighed values, weights, and the exponent both are divided by."""


def fading_mean(t: Recorder, name: str, key: Tensor, value: Tensor, load: Load) -> Tensor:
    """key, value [batch * seq, width] -> the same shape (Peng et al. 2023, arXiv:2305.13048, equation 16).

    Elementwise, 0 FLOPs. One kernel walks over the tokens; going back it does so again, and what it keeps is keys and
    values, as RWKV's own does.
    """
    width = key.width
    weights = tuple(t.weight(each, width, shard=COLUMN) for each in ("decay", "first"))
    trained = weights[0].trainable
    y = t.made(key.rows, width, key, value, weights=weights, split="tensor")
    held: Size = load.batch * STATE * width

    def moves() -> Moves:
        return Moves(2 * key.elements, y.elements, state_reads=held if load.decode else 0, state_writes=held)

    def keeps(tape: Tape, k: Storage, v: Storage) -> Storage:
        made = Storage(y.elements, k.dtype, k.grad or v.grad or trained, y.split)
        with tape.region("attention", k, v):
            if made.grad:
                tape.keep(k, "keys")
                tape.keep(v, "values")
        return made

    t.op(
        name,
        "attention",
        "scan",
        (key, value),
        (y,),
        weights=weights,
        cache=Cache(recurrent=STATE * width, heads=width),
        moves=moves,
        keeps=keeps,
    )
    return y
