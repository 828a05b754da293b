"""Queries, keys and values through convolutions: compressed convolutional attention (ZAYA1)."""

from __future__ import annotations

from calc.blocks.again import again
from calc.sizes import Size, exact_div, is_exactly
from calc.spec import Convolved
from calc.spec.load import Load
from calc.trace.footprint import Footprint
from calc.trace.op import Cache, Moves
from calc.trace.primitives.gather import constant
from calc.trace.primitives.magnitude import brought_to_length
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def convolved_inputs(
    t: Trace, spec: Convolved, sizes: tuple[Size, Size, Size], x: Tensor, load: Load, *, bias: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """x [batch * seq, d_model] -> queries, keys and values of the new tokens, not turned yet. sizes: (n_heads,
    n_kv_heads, d_head).

    2 * d_conv FLOPs a channel of queries and keys and position, and 2 * d_head * d_head_conv a channel and token; the
    filter of each channel computes d_head_conv - 1 positions more than there are tokens. Cache: the last d_conv +
    d_head_conv - 2 tokens of queries and keys as they were projected, and the last one's delayed values. Source: as
    calc.spec.convolved.
    """
    heads, kv_heads, d_head = sizes
    queries, keys = heads * d_head, kv_heads * d_head
    q = t.linear("q_proj", x, queries, bias=bias)
    k = t.linear("k_proj", x, keys, bias=bias)
    both = _behind_earlier(t, spec, q, k, load)
    named = [q, k]
    mean_q = t.scaled("mean", t.add("mean_add", q, k))
    mean_k = _mean_of_groups(t, mean_q, keys)
    places = load.batch * (load.seq + spec.d_head_conv - 1)
    width = queries + keys
    both = t.convolution("conv", both, width, (spec.d_conv,), places, groups=width, of="attention")
    both = t.convolution("head_conv", both, width, (spec.d_head_conv,), x.rows, groups=heads + kv_heads, of="attention")
    named += [mean_q, mean_k, both]
    q = t.add("q_add", both.columns(queries), mean_q)
    k = t.add("k_add", both.columns(keys), mean_k)
    v = _values(t, x, keys, load, named, bias=bias)
    q, k = brought_to_length(t, "length", q, heads), brought_to_length(t, "key_length", k, kv_heads)
    return q, _scaled_keys(t, k, kv_heads), v


def _behind_earlier(t: Trace, spec: Convolved, q: Tensor, k: Tensor, load: Load) -> Tensor:
    """Queries and keys side by side, behind so many of earlier tokens, or zeros, as the convolutions reach back."""
    before, width = spec.d_conv + spec.d_head_conv - 2, q.width + k.width
    y = t.made(load.batch * (load.seq + before), width, q, k)
    kept = load.batch * before * width

    def moves() -> Moves:
        return Moves(q.elements + k.elements, y.elements, cache_reads=kept if load.decode else 0, cache_writes=kept)

    def keeps(tape: Tape, *reads: Storage) -> Storage:
        like = tape.like(*reads)
        return Storage(y.elements, like.dtype, like.grad)

    cache = Cache(fixed=before * width)
    t.op("behind_earlier", "elementwise", "copy", (q, k), (y,), cache=cache, moves=moves, keeps=keeps)
    return y


def _mean_of_groups(t: Trace, q: Tensor, width: Size) -> Tensor:
    """Of the query heads that share a key head, the mean: [rows, width]."""
    y = t.made(q.rows, width, q)

    def keeps(tape: Tape, read: Storage) -> Storage:
        return Storage(y.elements, read.dtype, read.grad)

    t.op("mean_of_groups", "elementwise", "pool", (q,), (y,), keeps=keeps)
    return y


def _values(t: Trace, x: Tensor, width: Size, load: Load, named: list[Tensor], *, bias: bool) -> Tensor:
    """Half of each token's values beside half of those of the token before; what stands ahead of a sequence's first
    token is projected like a token, though it is zero. named: what transformers' names hold until all of it is made."""
    half = exact_div(width, 2)
    current = t.linear("v_proj_current", x, half, bias=bias)
    delayed = t.linear("v_proj_delayed", x, half, bias=bias)
    if not load.decode and is_exactly(load.context, 0):
        zeros = constant(t, load.batch, x.width)
        again(t, lambda: t.linear("v_proj_delayed", zeros, half, bias=bias))
    y = t.made(x.rows, width, current, delayed)
    last = load.batch * half

    def moves() -> Moves:
        return Moves(current.elements + delayed.elements, y.elements, 0, 0, last if load.decode else 0, last)

    def keeps(tape: Tape, *reads: Storage) -> Storage:
        like = tape.like(*reads)
        return Storage(y.elements, like.dtype, like.grad)

    def live_bytes(room: Footprint) -> Size:
        return room.of(y) + (0 if room.compiled else sum(map(room.of, [*named, delayed]), start=0))

    fields = {"moves": moves, "keeps": keeps, "live_bytes": live_bytes}
    t.op("delay", "elementwise", "copy", (current, delayed), (y,), cache=Cache(fixed=half), **fields)
    return y


def _scaled_keys(t: Trace, k: Tensor, kv_heads: Size) -> Tensor:
    """Keys times a learned number a head."""
    weight = t.weight("key_scale", kv_heads)
    y = t.made(k.rows, k.width, k, weights=(weight,))

    def keeps(tape: Tape, read: Storage) -> Storage:
        return tape.times(read, Storage(kv_heads, tape.settings.stream, weight.trainable, "none", parameter=True))

    t.op("key_scale", "elementwise", "scale", (k,), (y,), weights=(weight,), keeps=keeps)
    return y
