"""Mamba's scan: a state for every channel that each token updates and reads."""

from __future__ import annotations

from calc.sizes import Size
from calc.spec.load import Load
from calc.trace.op import Cache, Moves, Weight
from calc.trace.primitives.recurrence import negative_exponential, scaled_by, spread
from calc.trace.recorder import Recorder
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


def selective_scan(t: Recorder, x: Tensor, dt: Tensor, b: Tensor, c: Tensor, d_state: Size, load: Load) -> Tensor:
    """x, dt [tokens, d_inner], b, c [tokens, d_state] -> [tokens, d_inner] (Gu & Dao 2023, algorithm 2).

    The update is elementwise, 0 FLOPs here; the reading is 2 * d_inner * d_state a token, in a scan as in decoding.
    Going back takes as many for the states and as many for c.
    """
    d_inner = x.width
    state, flops = d_inner * d_state, 2 * x.rows * d_inner * d_state
    fade, through = t.weight("A_log", d_inner, d_state), t.weight("D", d_inner)
    updates = x.grad or dt.grad or b.grad or fade.trainable
    y = t.made(x.rows, d_inner, x, dt, b, c, weights=(fade, through), split="tensor")

    def moves() -> Moves:
        reads = 2 * x.rows * (d_inner + d_state)
        held = load.batch * state
        return Moves(reads, y.elements, state_reads=held if load.decode else 0, state_writes=held)

    t.op(
        "scan",
        "attention",
        "scan",
        (x, dt, b, c),
        (y,),
        weights=(fade, through),
        flops=flops,
        backward=(int(updates) + int(c.grad)) * flops,
        cache=Cache(recurrent=state),
        moves=moves,
        keeps=lambda tape, *reads: _kept(tape, *reads, fade=fade, through=through),
    )
    return y


def _kept(tape: Tape, x: Storage, dt: Storage, b: Storage, c: Storage, *, fade: Weight, through: Weight) -> Storage:
    """The scan keeps states and factors, each [tokens, d_inner, d_state].

    Source: transformers' modeling_mamba.py (5.23), without its kernels: steps in fp32, one state for every token.
    """
    dt = tape.reads_input(tape.cast(dt, "fp32"))
    x, b, c = (tape.cast(y, "fp32") for y in (x, b, c))
    a = negative_exponential(tape, fade)
    states = b.elements * through.elements
    with tape.region("attention", x, dt, a, b, c):
        factor = tape.reads_result(spread(tape, dt, a, states))
        after = tape.like(factor, spread(tape, tape.times(dt, x), b, states))
        if after.grad:
            tape.keep(factor, "factor")
            tape.keep(after, "states")
        y = tape.product(after, c, x.elements)
    return tape.like(y, scaled_by(tape, x, through))
