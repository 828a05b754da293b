"""Mixing each token with the one before it, as RWKV does ahead of its matrices."""

from __future__ import annotations

from calc.spec.load import Load
from calc.trace.op import Cache, Moves
from calc.trace.primitives.arithmetic import weighed_by
from calc.trace.recorder import Recorder
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


def token_shift(t: Recorder, x: Tensor, names: tuple[str, ...], load: Load) -> list[Tensor]:
    """x [batch * seq, d_model] -> for each of `names`, x + mix * (the token before - x), with a learned mix [d_model].

    Elementwise, 0 FLOPs. Cache: the last token's vector. Each difference is a tensor of its own, kept for its mix; what
    one kernel for all of them keeps is refused. Source: Peng et al. 2025 (arXiv:2503.14456), section 4.1.
    """
    weights = tuple(t.weight(name, x.width) for name in names)
    made = [t.made(x.rows, x.width, x, weights=(weight,)) for weight in weights]
    last = load.batch * x.width

    def moves() -> Moves:
        return Moves(x.elements, len(names) * x.elements, cache_reads=last if load.decode else 0, cache_writes=last)

    def keeps(tape: Tape, read: Storage) -> list[Storage]:
        tape.written_out("a mix of each token with the one before it")
        return [tape.like(read, weighed_by(tape, tape.like(read), weight.trainable)) for weight in weights]

    cache = Cache(fixed=x.width)
    t.op("shift", "elementwise", "other", (x,), tuple(made), weights=weights, cache=cache, moves=moves, keeps=keeps)
    return made
