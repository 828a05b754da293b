"""Mamba's scan: a state for every channel that each token updates and reads."""

from __future__ import annotations

from calc.sizes import Size
from calc.spec.load import Load
from calc.trace.op import Cache, Moves, Weight
from calc.trace.primitives.recurrence import negative_exponential, scaled_by, spread
from calc.trace.recorder import Recorder
from calc.trace.shard import COLUMN
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


def selective_scan(t: Recorder, x: Tensor, dt: Tensor, b: Tensor, c: Tensor, d_state: Size, load: Load) -> Tensor:
    """x, dt [tokens, d_inner], b, c [tokens, d_state] -> [tokens, d_inner] (Gu & Dao 2023, algorithm 2).

    The update is elementwise, 0 FLOPs here; the reading is 2 * d_inner * d_state a token, in a scan as in decoding.
    Going back takes as many for the states and as many for c.
    """
    d_inner = x.width
    state, flops = d_inner * d_state, 2 * x.rows * d_inner * d_state
    fade, through = t.weight("A_log", d_inner, d_state, shard=COLUMN), t.weight("D", d_inner, shard=COLUMN)
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
        cache=Cache(recurrent=state, heads=d_inner),
        moves=moves,
        keeps=lambda tape, *reads: _saved(tape, *reads, own=(fade, through), batch=load.batch),
    )
    return y


def _saved(
    tape: Tape, x: Storage, dt: Storage, b: Storage, c: Storage, *, own: tuple[Weight, Weight], batch: Size
) -> Storage:
    """The scan keeps factors, states and what b adds to them for every x, each [tokens, d_inner, d_state], and the
    state before the first token; c reads the states in its own format, a copy of them where that is not fp32.

    own: how fast states fade, and what passes by them. Source: transformers' modeling_mamba.py (5.23), without its
    kernels: steps in fp32, one state for every token. Errors: Refused where everything is fused.
    """
    tape.written_out("a scan with a state for every channel")
    fade, through = own
    dt = tape.reads_input(tape.cast(dt, "fp32"))
    x, b = (tape.cast(y, "fp32") for y in (x, b))
    a = negative_exponential(tape, fade)
    states = b.elements * through.elements
    with tape.region("attention", x, dt, a, b, c):
        factor = tape.reads_result(spread(tape, dt, a, states))
        after = tape.like(factor, spread(tape, spread(tape, dt, b, states), x, states))
        if after.grad:
            tape.keep(factor, "factor")
            tape.keep(after, "states")
            tape.keep(Storage(batch * fade.elements, "fp32", False, "tensor"), "state before all tokens")
        y = tape.product(tape.cast(after, c.dtype), c, x.elements)
    return tape.like(y, scaled_by(tape, x, through))
