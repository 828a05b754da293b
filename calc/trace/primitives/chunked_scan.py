"""Mamba-2's scan: a state for every head, in chunks as products (Dao & Gu 2024, listing 1)."""

from __future__ import annotations

from typing import Any, NamedTuple

from calc.sizes import Size, ceil_div
from calc.spec import Mamba2
from calc.spec.load import Load
from calc.trace.functions import Matmul
from calc.trace.op import Cache, Moves, Weight
from calc.trace.primitives.product import product
from calc.trace.primitives.recurrence import between, negative_exponential, scaled_by, spread
from calc.trace.primitives.scan_kernels import saved_by_scan_kernel
from calc.trace.recorder import Recorder
from calc.trace.shard import COLUMN
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


class Own(NamedTuple):
    """The scan's own weights, a number for each head: the step's bias, how fast the state fades, what passes by it."""

    step: Weight
    fade: Weight
    through: Weight


def chunked_scan(t: Recorder, spec: Mamba2, mixed: Tensor, dt: Tensor, load: Load) -> Tensor:
    """mixed: x [tokens, d_inner], b and c [tokens, n_groups * d_state] side by side; dt [tokens, n_heads] -> x's shape.

    Products of whole chunks, the last one filled up; b and c are laid out for every head. Within a chunk c against b
    and the result against x; each chunk's state; all states carried to all later chunks as one product over chunks + 1
    of them; and c against the state at the chunk's start. Decoding reads the state once.
    """
    d_inner, d_shared = spec.n_heads * spec.d_head, spec.n_groups * spec.d_state
    x, b, c = mixed.columns(d_inner), *(mixed.columns(d_shared, "kv", spec.n_groups) for _ in "bc")
    own = Own(*(t.weight(name, spec.n_heads, shard=COLUMN) for name in ("dt_bias", "A_log", "D")))
    decay = _decay(t, spec, own, dt, x, b, load)
    y = t.made(x.rows, d_inner, mixed, dt, weights=own, split="tensor")
    fields = {
        "keeps": lambda tape, *reads: _saved(tape, spec, own, load, *reads),
        "operands": (mixed, dt),
    }
    with t.one_kernel("compiled"):
        (_read_state if load.decode else _in_chunks)(t, spec, (x, b, c, decay), y, load, fields)
    return y


def _decay(t: Recorder, spec: Mamba2, own: Own, dt: Tensor, x: Tensor, b: Tensor, load: Load) -> Tensor:
    """Step sizes and decays of each head; in decoding also the update of the state with the new token."""
    state = spec.n_heads * spec.d_head * spec.d_state
    inputs = (dt, x, b) if load.decode else (dt,)
    y = t.made(dt.rows, 2 * spec.n_heads, *inputs, weights=own, split="tensor")

    def moves() -> Moves:
        reads, held = sum((each.elements for each in inputs), start=0), load.batch * state
        return Moves(reads, y.elements, state_reads=held if load.decode else 0, state_writes=held)

    function = "scan" if load.decode else "other"
    t.op(
        "decay",
        "elementwise",
        function,
        inputs,
        (y,),
        weights=own,
        cache=Cache(recurrent=state, heads=spec.n_heads),
        moves=moves,
    )
    return y


def _read_state(
    t: Recorder, spec: Mamba2, read: tuple[Tensor, ...], y: Tensor, load: Load, fields: dict[str, Any]
) -> None:
    """c against the state, which the token has updated."""
    _, _, c, decay = read
    state = spec.n_heads * spec.d_head * spec.d_state
    t.op(
        "state_output",
        "attention",
        "batched_matmul",
        (c, decay),
        (y,),
        flops=2 * y.rows * state,
        shape=Matmul(1, spec.d_head, spec.d_state, y.rows * spec.n_heads, weighed=False),
        moves=lambda: Moves(c.elements, y.elements, state_reads=load.batch * state),
        **fields,
    )


def _in_chunks(
    t: Recorder, spec: Mamba2, read: tuple[Tensor, ...], y: Tensor, load: Load, fields: dict[str, Any]
) -> None:
    x, b, c, decay = read
    heads, d_head, d_state, chunk = spec.n_heads, spec.d_head, spec.d_state, spec.chunk
    chunks = ceil_div(load.seq, chunk)
    padded, n = load.batch * chunks * chunk, load.batch * chunks * heads
    state, pairs = heads * d_head * d_state, 2 * padded * chunk * heads

    def shape(m: Size, wide: Size, k: Size, groups: Size = n) -> Matmul:
        return Matmul(m, wide, k, groups, weighed=False)

    scores = product(t, "chunk_scores", c, b, n * chunk, chunk, shape(chunk, chunk, d_state), pairs * d_state)
    inside = product(t, "chunk_values", scores, x, padded, y.width, shape(chunk, d_head, chunk), pairs * d_head)
    states = product(t, "chunk_state", b, x, n * d_state, d_head, shape(d_state, d_head, chunk), 2 * padded * state)
    each, carried = load.batch * heads, 2 * load.batch * (chunks + 1) * (chunks + 1) * state
    all_of_them = shape(chunks + 1, d_head * d_state, chunks + 1, each)
    starts = product(t, "carry", decay, states, each * (chunks + 1), d_head * d_state, all_of_them, carried)
    last = shape(chunk, d_head, d_state)
    t.op(
        "state_output",
        "attention",
        "batched_matmul",
        (c, starts, inside),
        (y,),
        flops=2 * padded * state,
        backward=(int(c.grad) + int(starts.grad)) * 2 * padded * state,
        shape=last,
        moves=lambda: Moves(n * d_state * (chunk + d_head), n * chunk * d_head),
        **fields,
    )


def _saved(tape: Tape, spec: Mamba2, own: Own, load: Load, mixed: Storage, dt: Storage) -> Storage:
    """Source: transformers' modeling_mamba2.py (5.23), without its kernels, and with the carried states as one
    product; where one kernel computes it, that of `scan_kernels`."""
    if tape.settings.fused:
        return saved_by_scan_kernel(tape, own.fade, mixed, dt, load.tokens * spec.n_heads * spec.d_head)
    heads, tokens = spec.n_heads, load.tokens
    x = tape.cast(mixed.part(tokens * heads * spec.d_head), "fp32")
    # b and c are laid out for every head.
    b, c = (Storage(tokens * heads * spec.d_state, "fp32", mixed.grad, "tensor") for _ in "bc")
    with tape.at("scan"):
        dt = tape.reads_input(tape.like(dt, Storage(0, "fp32", own.step.trainable, "none")))
        if spec.dt_min > 0 or spec.dt_max is not None:
            dt = tape.reads_input(dt)
        stepped = tape.times(x, dt)
        decay = spread(tape, dt, negative_exponential(tape, own.fade), tokens * heads)
        with tape.region("attention", stepped, decay, b, c):
            y = _saved_by_chunks(tape, spec, load, mixed.grad)
        # Of whole chunks, a view of as many tokens as there are.
        return tape.like(scaled_by(tape, x, own.through), y)


def _saved_by_chunks(tape: Tape, spec: Mamba2, load: Load, grad: bool) -> Storage:
    """Within a chunk as attention with decay, between chunks through their states; all in whole chunks.

    grad: whether what one projection makes, all that is read here, needs a gradient.
    """
    chunks = ceil_div(load.seq, spec.chunk)
    rows = load.batch * spec.n_heads
    places = rows * chunks * spec.chunk
    values, state = places * spec.d_head, spec.d_head * spec.d_state
    x, b, c = (Storage(places * each, "fp32", grad, "tensor") for each in (spec.d_head, spec.d_state, spec.d_state))
    fading = between(tape, spec.chunk, places * spec.chunk, grad)
    scores = tape.times(tape.product(c, b, places * spec.chunk), fading)
    inside = tape.product(tape.cast(scores, "fp32"), x, values)
    left = tape.reads_result(Storage(places, "fp32", grad, "tensor"))
    states = tape.product(tape.times(x, left), b, rows * chunks * state)
    states = Storage(rows * (chunks + 1) * state, states.dtype, grad, "tensor")
    left = between(tape, chunks + 1, rows * (chunks + 1) * (chunks + 1), grad)
    carried = tape.product(left, states, states.elements)
    starts = Storage(rows * chunks * state, carried.dtype, grad, "tensor")
    reached = tape.times(c, tape.reads_result(Storage(places, "fp32", grad, "tensor")))
    return tape.like(inside, tape.product(reached, starts, values))
