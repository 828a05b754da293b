"""RWKV-7's rule in chunks (Peng et al. 2025, arXiv:2503.14456, section 4.1). What autograd keeps of it stands in
`rwkv_rule_saved`."""

from __future__ import annotations

from typing import Any

from calc.sizes import Size, ceil_div
from calc.spec import Rwkv7
from calc.spec.load import Load
from calc.trace.functions import Matmul
from calc.trace.op import Moves
from calc.trace.primitives.product import product
from calc.trace.primitives.rwkv_keys import RuleInputs
from calc.trace.primitives.rwkv_rule_saved import saved_by_rwkv_rule
from calc.trace.recorder import Recorder
from calc.trace.tensor import Tensor


def rwkv_rule(t: Recorder, spec: Rwkv7, read: RuleInputs, load: Load) -> Tensor:
    """state = exp(decay) state + replaced (removed' state) + k v', y = r' state: [tokens, n_heads * d_head].

    Decoding one token is elementwise, 0 FLOPs.
    """
    y = t.made(read.r.rows, read.r.width, *read, split="tensor")
    rule = {"keeps": lambda tape, *reads: saved_by_rwkv_rule(tape, spec, load, *reads), "operands": tuple(read)}
    if not load.decode:
        _in_chunks(t, spec, read, y, load, rule)
        return y
    state = load.batch * y.width * spec.d_head

    def moves() -> Moves:
        return Moves(sum(each.elements for each in read), y.elements, state_reads=state, state_writes=state)

    t.op("recurrence", "elementwise", "scan", tuple(read), (y,), moves=moves, **rule)
    return y


def _in_chunks(t: Recorder, spec: Rwkv7, read: RuleInputs, y: Tensor, load: Load, rule: dict[str, Any]) -> None:
    """The rule as products over whole chunks, the last one filled up.

    In each chunk what reads (removed keys, receptances) meets what is written (replaced keys, keys) in one product of
    2 * chunk rows and columns; values already written are removed by a triangular system (no product going forward;
    its gradient takes one); both read the state; receptances read the chunk's own values; and these update the state.
    Going back, the first chunk's empty state takes no gradient, and the last chunk's update has none.
    """
    c, d, chunks = spec.chunk, spec.d_head, ceil_div(load.seq, spec.chunk)
    heads = load.batch * spec.n_heads
    n = heads * chunks
    pairs, one = 2 * n * c * c * d, 2 * heads * c * d * d
    r, decay, k, v, removed, replaced = read
    reading, removing, writing = (
        int(any(x.grad for x in (*some, decay))) for some in ((r,), (removed,), (k, replaced))
    )

    def shape(m: Size, wide: Size, k: Size, groups: Size = n) -> Matmul:
        return Matmul(m, wide, k, groups, weighed=False)

    scores = t.made(2 * n * c, 2 * c, r, decay, k, removed, replaced, split="tensor")
    t.op(
        "chunk_scores",
        "attention",
        "batched_matmul",
        (r, decay, k, removed, replaced),
        (scores,),
        flops=4 * pairs,
        backward=(max(reading, removing) + writing) * 4 * pairs,
        shape=shape(2 * c, 2 * c, d),
        moves=lambda: Moves(4 * n * c * d, scores.elements),
    )
    solved = _solved(t, scores, v, removed, shape(c, d, c), pairs)
    held = t.made(n * d, d, solved, k, v, decay, split="tensor")
    back = (int(solved.grad) + reading) * chunks * one + 2 * int(held.grad) * (chunks - 1) * one
    found = product(t, "state_read", solved, held, 2 * n * c, d, shape(c, d, d, 2 * n), 2 * chunks * one, backward=back)
    product(t, "chunk_values", scores, found, n * c, d, shape(c, d, 2 * c), 2 * pairs)
    t.op(
        "state_update",
        "attention",
        "batched_matmul",
        (found, v),
        (y,),
        flops=2 * chunks * one,
        backward=(writing + int(found.grad or v.grad)) * 2 * (chunks - 1) * one,
        shape=shape(d, d, 2 * c),
        moves=lambda: Moves(4 * n * c * d, n * d * d),
        **rule,
    )


def _solved(t: Recorder, scores: Tensor, v: Tensor, removed: Tensor, shape: Matmul, pairs: Size) -> Tensor:
    """The triangular system of each chunk, for what it has written itself and for what it reads the state with.

    shape: of the products [c, c] x [c, d] of all chunks, and pairs: their FLOPs.
    """
    n, c, d = shape.groups, shape.m, shape.n
    right = product(t, "chunk_removed", scores, v, n * c, d, shape, pairs)
    y = t.made(2 * n * c, d, right, scores, removed, split="tensor")
    back = int(scores.grad) * 2 * pairs
    moved = n * c * (c + 2 * d)
    inputs = (right, scores, removed)
    t.op("solve", "attention", "other", inputs, (y,), backward=back, moves=lambda: Moves(moved, y.elements))
    return y
