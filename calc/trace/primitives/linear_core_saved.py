"""What autograd keeps of linear attention's core.

Source: transformers' modeling_minimax.py (5.23), lightning attention in chunks.
"""

from __future__ import annotations

from calc.sizes import Size, ceil_div, is_exactly, maximum, minimum
from calc.spec import LinearAttention
from calc.spec.load import Load
from calc.trace.tape import Storage, Tape


def saved_by_linear_core(
    tape: Tape, spec: LinearAttention, d_head: Size, load: Load, x: Storage, q: Storage, k: Storage, v: Storage
) -> Storage:
    """Errors: Refused where everything is fused."""
    tape.written_out("linear attention")
    v = tape.cast(v, "fp32")
    with tape.at("core"), tape.region("attention", q, k, v):
        y = (_chunks if spec.causal else _to_both_sides)(tape, spec, d_head, load, q, k, v)
    return y if spec.norm is None else Storage(y.elements, x.dtype, y.grad, "tensor")


def saved_by_division(
    tape: Tape, spec: LinearAttention, width: Size, load: Load, x: Storage, y: Storage, q: Storage, k: Storage
) -> Storage:
    """Sums of keys, of all or so far, each query's product with them, and what that divides. width: of all heads."""
    with tape.at("normalize"):
        sums = q.elements if spec.causal else load.batch * width
        product = tape.times(q, Storage(sums, "fp32", k.grad, "tensor"))
        total = tape.reads_input(Storage(load.tokens * spec.n_heads, "fp32", product.grad, "tensor"))
        made = tape.times(y, total)
    return Storage(made.elements, x.dtype, made.grad, "tensor")


def _laid(tape: Tape, spec: LinearAttention, load: Load, x: Storage) -> Storage:
    """x as a product of matrices reads it: heads of several sequences lie between others, and are copied."""
    alone = any(is_exactly(n, 1) for n in (load.batch, spec.n_heads))
    return x if alone else tape.like(x)


def _to_both_sides(
    tape: Tape, spec: LinearAttention, d_head: Size, load: Load, q: Storage, k: Storage, v: Storage
) -> Storage:
    q, k, v = (_laid(tape, spec, load, each) for each in (q, k, v))
    state = tape.product(k, v, load.batch * spec.n_heads * d_head * d_head)
    return tape.product(q, state, load.tokens * spec.n_heads * d_head)


def _chunks(tape: Tape, spec: LinearAttention, d_head: Size, load: Load, q: Storage, k: Storage, v: Storage) -> Storage:
    """Inside a chunk as attention without softmax, between chunks through the state; the last may be shorter.

    How fast each head forgets is fixed, so that what fades is not kept, but by how much. Nothing reads the state that
    the last chunk leaves. Keys and values are laid out again for the state.
    """
    chunk, heads = spec.chunk, spec.n_heads
    later = ceil_div(load.seq, chunk) - 1
    before = later * chunk
    pairs = before * chunk + (load.seq - before) * (load.seq - before)
    rows = load.batch * heads
    fixed = {
        "fading in chunks": (pairs, q.grad or k.grad),
        "fading of states": (load.seq, q.grad),
        "fading to the end": (before, k.grad),
        "fading of whole chunks": (maximum(later - 1, 0), k.grad or v.grad),
    }
    for role, (each, needed) in fixed.items():
        if needed:
            tape.keep(Storage(heads * each, "fp32", False, "tensor"), role)
    scores = tape.product(_laid(tape, spec, load, q), _laid(tape, spec, load, k), rows * pairs)
    weights = tape.like(scores, dtype="fp32")
    y = tape.product(weights, _laid(tape, spec, load, v), load.tokens * heads * d_head)
    own = _laid(tape, spec, load, v) is not v or tape.settings.autocast
    made = {
        "queries that read states": ((load.seq - minimum(load.seq, chunk)) * d_head, k.grad or v.grad),
        "states": ((later + 1) * d_head * d_head, q.grad),
        "keys that states take in": (before * d_head, v.grad),
        "values that states take in": (before * d_head, k.grad and own),
    }
    dtype = tape.settings.dtype if tape.settings.autocast else "fp32"
    for role, (each, needed) in made.items():
        if needed:
            tape.keep(Storage(rows * each, dtype, True, "tensor"), role)
    return tape.like(y, q, k, v, dtype=y.dtype)
