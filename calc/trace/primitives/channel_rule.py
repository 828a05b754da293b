"""The delta rule with a decay for each channel, in chunks (Kimi Team 2025, arXiv:2510.26692, section 3).

What autograd keeps of it stands in `channel_rule_saved`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from calc.sizes import Size, ceil_div, is_exactly
from calc.spec import Kda
from calc.spec.load import Load
from calc.trace.functions import Matmul
from calc.trace.op import Cache, Moves, Weight
from calc.trace.primitives.channel_rule_saved import saved_by_channel_rule
from calc.trace.primitives.product import product
from calc.trace.recorder import Recorder
from calc.trace.shard import COLUMN
from calc.trace.tensor import Tensor


class Read(NamedTuple):
    """Queries, keys and values side by side; a decay for each channel; a learning rate for each head."""

    mixed: Tensor
    decays: Tensor
    rate: Tensor


def channel_rule(t: Recorder, spec: Kda, x: Tensor, mixed: Tensor, rate: Tensor, decay: Tensor, load: Load) -> Tensor:
    """mixed [tokens, 3 * n_heads * d_head], rate [tokens, n_heads], decay [tokens, n_heads * d_head] -> the shape of
    decay, in the number format of x, which the block reads. Decoding one token is elementwise, 0 FLOPs."""
    width = spec.n_heads * spec.d_head
    own = (t.weight("dt_bias", width, shard=COLUMN), t.weight("A_log", spec.n_heads, shard=COLUMN))
    y = t.made(mixed.rows, width, mixed, rate, decay, weights=own, split="tensor")
    read = Read(mixed, _decays(t, spec, own, decay, load), rate)
    rule = {
        "keeps": lambda tape, *reads: saved_by_channel_rule(tape, spec, load, own, *reads),
        "operands": (x, mixed, rate, decay),
    }
    if not load.decode:
        _in_chunks(t, spec, read, y, load, rule)
        return y
    state = load.batch * width * spec.d_head

    def moves() -> Moves:
        return Moves(sum(each.elements for each in read), y.elements, state_reads=state, state_writes=state)

    t.op("recurrence", "elementwise", "scan", tuple(read), (y,), moves=moves, **rule)
    return y


def _decays(t: Recorder, spec: Kda, own: tuple[Weight, ...], decay: Tensor, load: Load) -> Tensor:
    """The logarithms of decays: -exp(A_log) * softplus(decay + dt_bias), or bound * sigmoid(exp(A_log) * (decay +
    dt_bias))."""
    y = t.made(decay.rows, decay.width, decay, weights=own, split="tensor")
    state = Cache(recurrent=decay.width * spec.d_head, heads=spec.n_heads)
    written = 0 if load.decode else load.batch * state.recurrent

    def moves() -> Moves:
        return Moves(decay.elements, y.elements, state_writes=written)

    t.op("decay", "elementwise", "other", (decay,), (y,), weights=own, cache=state, moves=moves)
    return y


def _in_chunks(t: Recorder, spec: Kda, read: Read, y: Tensor, load: Load, rule: dict[str, Any]) -> None:
    """The rule over whole chunks, the last one filled up.

    Between two tokens every channel fades by itself, so that a chunk's scores, of keys and queries against keys, are no
    product of matrices as eager PyTorch runs them: 0 FLOPs here, where kernels made for it multiply. The triangular
    system is inverted row by row, 0 FLOPs too, and its inverse multiplied with values and with keys. Then as in a delta
    net: keys and queries read the state, queries the corrections, and these update the state. Going back, the first
    chunk's empty state takes no gradient, and the last chunk's update has none.
    """
    mixed, decays, rate = read
    chunks, c, d = ceil_div(load.seq, spec.chunk), spec.chunk, spec.d_head
    heads = load.batch * spec.n_heads
    n = heads * chunks
    pairs, one = 2 * n * c * c * d, 2 * heads * c * d * d
    faded = int(mixed.grad or decays.grad)

    def shape(m: Size, k: Size, groups: Size) -> Matmul:
        return Matmul(m, d, k, groups, weighed=False)

    scores, inverse = _system(t, spec, read, n)
    made = t.made(2 * n * c, d, inverse, *read, split="tensor")
    back = (2 * int(inverse.grad) + int(mixed.grad or rate.grad) + int(any(each.grad for each in read))) * pairs
    t.op(
        "corrections",
        "attention",
        "batched_matmul",
        (inverse, mixed, decays, rate),
        (made,),
        flops=2 * pairs,
        backward=back,
        shape=shape(c, c, 2 * n),
        moves=lambda: Moves(2 * n * c * (c + d), made.elements),
    )
    held = t.made(n * d, d, made, decays, split="tensor")
    back = (int(made.grad) + faded) * chunks * one + 2 * int(held.grad) * (chunks - 1) * one
    found = product(t, "state_read", made, held, 2 * n * c, d, shape(c, d, 2 * n), 2 * chunks * one, backward=back)
    inside = product(t, "chunk_values", scores, found, n * c, d, shape(c, c, n), pairs)
    t.op(
        "state_update",
        "attention",
        "batched_matmul",
        (mixed, inside),
        (y,),
        flops=chunks * one,
        backward=(faded + int(found.grad)) * (chunks - 1) * one,
        shape=shape(d, c, n),
        moves=lambda: Moves(2 * n * c * d, n * d * d),
        **rule,
    )


def _system(t: Recorder, spec: Kda, read: Read, n: Size) -> tuple[Tensor, Tensor]:
    """Scores of n chunks, of keys and of queries against keys, each faded between; and the inverse of the first."""
    squares = n * spec.chunk * spec.chunk
    scores = t.made(2 * n * spec.chunk, spec.chunk, *read, split="tensor")
    t.op("chunk_scores", "elementwise", "scan", tuple(read), (scores,))
    # Of a single token it is one, whatever its score: nothing goes back through it.
    solved = () if is_exactly(spec.chunk, 1) else (scores,)
    inverse = t.made(n * spec.chunk, spec.chunk, *solved, split="tensor")
    t.op("inverse", "elementwise", "scan", solved, (inverse,), moves=lambda: Moves(squares, squares))
    return scores, inverse
