"""The core of linear attention: feature map, products with a state, and a division where there is no norm behind it.

What autograd keeps of the products stands in `linear_core_saved`.
"""

from __future__ import annotations

from typing import Any

from calc.sizes import Size, ceil_div, minimum
from calc.spec import LinearAttention
from calc.spec.load import Load
from calc.trace.functions import Matmul
from calc.trace.op import Cache, Moves
from calc.trace.primitives.linear_core_saved import saved_by_division, saved_by_linear_core
from calc.trace.primitives.product import product
from calc.trace.recorder import Recorder
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor

Three = tuple[Tensor, Tensor, Tensor]


def features(t: Recorder, spec: LinearAttention, read: Three, cache: Cache | None, load: Load) -> Three:
    """Queries, keys and, where the map is SiLU, values behind the feature map, in fp32. cache: what the core keeps."""
    q, k, v = read
    mapped = (q, k, v) if spec.feature_map == "silu" else (q, k)
    made = [t.made(x.rows, x.width, x, split="tensor") for x in mapped]

    def keeps(tape: Tape, *reads: Storage) -> list[Storage]:
        return [tape.cast(tape.reads_input(each), "fp32") for each in reads]

    def moves() -> Moves:
        state = 0 if cache is None or load.decode else load.batch * cache.recurrent
        moved = sum((each.elements for each in mapped), start=0)
        return Moves(moved, moved, state_writes=state)

    t.op("feature_map", "elementwise", "other", mapped, tuple(made), cache=cache, moves=moves, keeps=keeps)
    return made[0], made[1], made[2] if len(made) == 3 else v


def linear_core(t: Recorder, spec: LinearAttention, d_head: Size, x: Tensor, read: Three, load: Load) -> Tensor:
    """read: queries, keys and values [tokens, n_heads * d_head] -> the same shape, in x's number format where a norm
    comes next."""
    q, k, v = read
    y = t.made(q.rows, q.width, q, k, v, split="tensor")
    rule = {
        "keeps": lambda tape, *reads: saved_by_linear_core(tape, spec, d_head, load, *reads),
        "operands": (x, q, k, v),
    }
    with t.one_kernel("compiled"):
        if spec.causal and not load.decode:
            _in_chunks(t, spec, d_head, read, y, load, rule)
        else:
            _by_state(t, spec.n_heads, d_head, read, y, load, rule)
    return y


def divided(t: Recorder, spec: LinearAttention, x: Tensor, y: Tensor, q: Tensor, k: Tensor, load: Load) -> Tensor:
    """y by the sum of each query's products with keys, in x's number format."""
    total = t.made(q.rows, spec.n_heads, q, k, split="tensor")
    made = t.made(y.rows, y.width, y, total, split="tensor")
    t.op(
        "normalize",
        "elementwise",
        "scale",
        (y, total),
        (made,),
        keeps=lambda tape, *reads: saved_by_division(tape, spec, y.width, load, *reads),
        operands=(x, y, q, k),
    )
    return made


def _by_state(t: Recorder, heads: Size, d_head: Size, read: Three, y: Tensor, load: Load, rule: dict[str, Any]) -> None:
    """Keys against values, then queries against the state: of all tokens at once, or of the one that is decoded."""
    q, k, v = read
    one, n, seq = 2 * load.tokens * heads * d_head * d_head, load.batch * heads, load.seq
    held, own = n * d_head * d_head, n * seq * d_head
    updating, reading = Matmul(d_head, d_head, seq, n, weighed=False), Matmul(seq, d_head, d_head, n, weighed=False)
    decoding = load.decode

    def updates() -> Moves:
        if decoding:
            return Moves(2 * own, 0, state_reads=held, state_writes=held)
        return Moves(2 * own, held)

    state = product(t, "state_update", k, v, n * d_head, d_head, updating, one, moves=updates)
    t.op(
        "state_read",
        "attention",
        "batched_matmul",
        (q, state),
        (y,),
        flops=one,
        shape=reading,
        moves=lambda: Moves(own, own, state_reads=held) if decoding else Moves(own + held, own),
        **rule,
    )


def _in_chunks(
    t: Recorder, spec: LinearAttention, d_head: Size, read: Three, y: Tensor, load: Load, rule: dict[str, Any]
) -> None:
    """Within a chunk as attention without softmax, between chunks through the state; the last chunk may be shorter.

    Going back, the empty state that the first chunk reads takes no gradient, and the last update has none.
    """
    q, k, v = read
    n, chunk = load.batch * spec.n_heads, spec.chunk
    before = ceil_div(load.seq, chunk) - 1
    last = load.seq - before * chunk
    inside = before * chunk * chunk + last * last
    few, one = minimum(load.seq, chunk), 2 * n * d_head * d_head
    squares, all_of_it, states = n * inside, n * load.seq * d_head, n * (before + 1) * d_head * d_head
    groups = n * (before + 1)

    def of(
        name: str, a: Tensor, b: Tensor, sizes: tuple[Size, Size, Size], flops: Size, moved: Moves, **more: Size
    ) -> Tensor:
        m, wide, k = sizes
        shape = Matmul(m, wide, k, groups, weighed=False)
        return product(t, name, a, b, groups * m, wide, shape, flops, moves=lambda: moved, **more)

    pairs = 2 * n * d_head * inside
    scores = of("chunk_scores", q, k, (few, few, d_head), pairs, Moves(2 * all_of_it, squares))
    of("chunk_values", scores, v, (few, d_head, few), pairs, Moves(squares + all_of_it, all_of_it))
    held = t.made(groups * d_head, d_head, k, v, split="tensor")
    back = one * (int(q.grad) * load.seq + int(held.grad) * (load.seq - few))
    reading = Moves(all_of_it + states, all_of_it)
    of("state_read", q, held, (few, d_head, d_head), one * load.seq, reading, backward=back)
    t.op(
        "state_update",
        "attention",
        "batched_matmul",
        (k, v),
        (y,),
        flops=one * load.seq,
        backward=(int(k.grad) + int(v.grad)) * one * before * chunk,
        shape=Matmul(d_head, d_head, few, groups, weighed=False),
        moves=lambda: Moves(2 * all_of_it, states),
        **rule,
    )
