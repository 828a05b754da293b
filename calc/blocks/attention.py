"""Self-attention: multi-head, multi-query and grouped-query, with windows, biases, norms and sinks."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from calc.blocks.adapters import prefix, prefix_length
from calc.blocks.around import Around
from calc.blocks.attention_experts import routed_output, routed_queries
from calc.blocks.differential import difference, halves
from calc.blocks.disentangled import projected_vectors
from calc.blocks.distances import placed_queries, projected_distances, segments
from calc.blocks.span_convolution import span_convolution
from calc.errors import Refused
from calc.sizes import Size, exact_div, is_exactly, quotient
from calc.spec import Attention, QkNorm
from calc.spec.load import Load
from calc.trace.functions import Attend
from calc.trace.op import Cache
from calc.trace.primitives.attend_live import Scoring
from calc.trace.primitives.attend_saved import Square
from calc.trace.shard import COLUMN, ROW, fused, key_value
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


class Projected(NamedTuple):
    """Queries, keys and values of the new tokens, and a gate or None. visits: weights of the experts that queries are
    of."""

    q: Tensor
    k: Tensor
    v: Tensor
    gate: Tensor | None
    visits: Tensor | None = None


def attention(t: Trace, spec: Attention, x: Tensor, load: Load, around: Around, *, d_out: Size | None = None) -> Tensor:
    """Projections, scores, softmax, weighted values, output projection, which gives d_out values, or as many as x has.

    Shapes: q [batch, n_heads, seq, d_head]; k, v [batch, n_kv_heads, keys, d_head]; scores [batch, n_heads, seq, keys].
    FLOPs of scores and values: 2 * batch * n_heads * d_head * pairs each (Vaswani et al. 2017, section 3.2.1).
    Keys and values are lent to later layers of the same window that have none of their own.
    """
    heads, kv_heads, d_head, d_value = head_sizes(spec, x.width)
    borrows = spec.kv == "earlier"
    q, k, v, gate, visits = (_borrowing if borrows else _projected)(t, spec, x, load, around)
    around.lend(spec.window, k, v)
    beside = None if spec.span is None else span_convolution(t, spec.span, heads, x, q)
    side, in_squares = spec.squares, False
    if side is not None and not (isinstance(load.seq, int) and load.seq == side**2):
        # Each square is a sequence of its own, copied out and back; no kernel is counted for it.
        load, in_squares = replace(load, batch=load.batch * exact_div(load.seq, side**2), seq=side**2), True
        q, k, v = (t.joined(each, rows=each.rows, width=each.width) for each in (q, k, v))
    cached, more = load.cached(spec.window), prefix_length(t)
    keys = cached + load.seq
    twice_pairs = load.batch * heads * load.twice_pairs(spec.window, spec.causal, spec.chunked)
    if more is not None:
        k, v = prefix(t, spec, (kv_heads, d_head, d_value), load, k, v)
        keys, twice_pairs = keys + more, twice_pairs + 2 * load.tokens * heads * more
    q, scoring = _scoring(t, spec, q, x.width, load, around)
    shape = Attend(
        load.batch * kv_heads,
        quotient(heads, kv_heads),
        load.seq,
        keys,
        d_head,
        d_value,
        spec.causal,
        spec.window,
        spec.chunked,
    )
    cache = Cache(load.vectors * kv_heads * (d_head + d_value), spec.window, heads=kv_heads)
    square = square_of(load, heads, kv_heads, load.seq, d_head, d_value)
    fields = {"cached": cached, "uncached": 0 if more is None else more}
    kept = cache if spec.causal and not borrows else None
    if spec.differential is not None:
        first, second = halves(t, v)
        first = t.attend(q, k, first, shape, square, twice_pairs, scoring, cache=kept, **fields)
        second = t.attend(q, k, second, shape, square, twice_pairs, scoring, **fields)
        y = difference(t, spec.differential, q, first, second, heads)
    else:
        y = t.attend(q, k, v, shape, square, twice_pairs, scoring, cache=kept, **fields)
    if beside is not None:
        y = t.joined(y, beside, rows=y.rows, width=y.width + beside.width)
    if in_squares:
        y = t.joined(y, rows=y.rows, width=y.width)
    if gate is not None:
        y = t.gated_output("gate", y, gate)
    if spec.head_gate is not None:
        y = t.gated_heads(
            "head_gate", y, t.linear("head_gate_proj", x, heads, shard=COLUMN), soft=spec.head_gate == "softplus"
        )
    if spec.inner_norm is not None:
        y = t.norm("inner_norm", spec.inner_norm, y)
    if spec.experts is not None and visits is not None:
        return routed_output(t, spec.experts, y, visits, x.width, load, bias=spec.out_bias)
    return t.linear("o_proj", y, x.width if d_out is None else d_out, bias=spec.out_bias, shard=ROW)


def cross_attention(t: Trace, spec: Attention, x: Tensor, load: Load, around: Around, *, keeps: bool = True) -> Tensor:
    """Attention of the new tokens over the vectors of each sequence's source, an encoder's result.

    Decoding finds the source's keys and values in the cache, so their projections do not run. keeps: whether later
    tokens come to read them there.
    """
    heads, kv_heads, d_head, d_value = head_sizes(spec, x.width)
    k_bias = spec.qkv_bias if spec.k_bias is None else spec.k_bias
    source, length, placed, keyed = around.source, around.length, x, around.source
    assert source is not None
    assert keyed is not None
    if spec.position == "added":
        placed, keyed = _placed(t, x, around.places), _placed(t, source, around.source_places)
    q = t.linear("q_proj", placed, heads * d_head, bias=spec.qkv_bias, shard=COLUMN)
    k = t.linear("k_proj", keyed, kv_heads * d_head, bias=k_bias, shard=key_value(kv_heads))
    v = t.linear("v_proj", source, kv_heads * d_value, bias=spec.qkv_bias, shard=key_value(kv_heads))
    shape = Attend(load.batch * kv_heads, quotient(heads, kv_heads), load.seq, length, d_head, d_value, causal=False)
    y = t.attend(
        q,
        k,
        v,
        shape,
        square_of(load, heads, kv_heads, length, d_head, d_value),
        2 * load.tokens * length * heads,
        Scoring(softmax=spec.softmax, softcap=spec.softcap is not None),
        cached=length if load.decode else 0,
        cache=Cache(fixed=length * kv_heads * (d_head + d_value), heads=kv_heads) if keeps else None,
    )
    return t.linear("o_proj", y, x.width, bias=spec.out_bias, shard=ROW)


def square_of(load: Load, heads: Size, kv_heads: Size, keys: Size, d_key: Size, d_value: Size) -> Square:
    """The sizes of an attention as autograd's rules compare them."""
    rows = load.batch * heads
    # The same object where it is the same by description: arrays are not compared.
    kv_rows = rows if is_exactly(kv_heads, heads) else load.batch * kv_heads
    return Square(load.batch, heads, rows, kv_rows, load.seq, keys, d_key, d_value)


def head_sizes(spec: Attention, d_model: Size) -> tuple[Size, Size, Size, Size]:
    """(n_heads, n_kv_heads, d_head, d_value), the ones left None filled in from the others."""
    d_head = exact_div(d_model, spec.n_heads) if spec.d_head is None else spec.d_head
    return spec.n_heads, spec.kv_heads, d_head, d_head if spec.d_value is None else spec.d_value


def _projected(t: Trace, spec: Attention, x: Tensor, load: Load, around: Around) -> Projected:
    """Projected, normed, cut, turned."""
    heads, kv_heads, d_head, _ = head_sizes(spec, x.width)
    q, k, v, gate, visits = _from_input(t, spec, x, load, around)
    before, after = (spec.qk_norm is not None and spec.qk_norm.turned is turned for turned in (False, True))
    if before:
        q, k = _normed(t, spec.qk_norm, "q", q, heads), _normed(t, spec.qk_norm, "k", k, kv_heads)
    if spec.clip is not None:
        q, k, v = t.clip("clip", q, k, v)
    if spec.value_scale != 1.0:
        v = t.scaled("value_scale", v)
    if spec.v_norm is not None:
        v = t.norm("v_norm", spec.v_norm, v, each=kv_heads)
    if spec.position == "rope" and not spec.rope.inputs:
        q, k = t.rope("rope", spec.rope, load.seq, d_head, q, k)
    if after:
        q, k = _normed(t, spec.qk_norm, "q", q, heads), _normed(t, spec.qk_norm, "k", k, kv_heads)
    return Projected(q, k, v, gate, visits)


def _from_input(t: Trace, spec: Attention, x: Tensor, load: Load, around: Around) -> Projected:
    """The projections of x. A gate is a part of the queries' matrix: each head's queries and gates lie side by side."""
    heads, kv_heads, d_head, d_value = head_sizes(spec, x.width)
    queries, keys, values = heads * d_head, kv_heads * d_head, kv_heads * d_value
    wide = queries + heads * d_value if spec.gate else queries
    placed = x
    if spec.position == "added":
        placed = _placed(t, x, around.places)
    elif spec.position == "rope" and spec.rope.inputs:
        (placed,) = t.rope("rope", spec.rope, load.seq, exact_div(x.width, heads), x)
    if spec.fused:
        of_keys = fused(kv_heads, keys + values)
        whole = t.linear("qkv_proj", x, wide + keys + values, bias=spec.qkv_bias, shard=of_keys)
        q, k, v = whole.columns(wide), *(whole.columns(each, "kv", kv_heads) for each in (keys, values))
    else:
        k_bias = spec.qkv_bias if spec.k_bias is None else spec.k_bias
        visits = None
        if spec.experts is not None:
            q, visits = routed_queries(t, spec.experts, x, queries, load)
        else:
            q = t.linear("q_proj", placed, wide, bias=spec.qkv_bias, shard=COLUMN)
        k = t.linear("k_proj", placed, keys, bias=k_bias, shard=key_value(kv_heads))
        v = k
        if spec.kv == "own":
            v = t.linear("v_proj", x, values, bias=spec.qkv_bias, shard=key_value(kv_heads))
        if visits is not None:
            return Projected(q, k, v, None, visits)
    if not spec.gate:
        return Projected(q, k, v, None)
    gate = t.joined(q, rows=q.rows, width=heads * d_value)
    return Projected(t.joined(q, rows=q.rows, width=queries), k, v, gate)


def _placed(t: Trace, x: Tensor, places: Tensor | None) -> Tensor:
    """x with what tells its vectors apart, where the front gives any."""
    return x if places is None else t.placed(x, places)


def _borrowing(t: Trace, spec: Attention, x: Tensor, load: Load, around: Around) -> Projected:
    """Queries alone, over keys and values of an earlier layer. Errors: Refused for what no model has beside them."""
    if spec.gate or spec.clip is not None or spec.position not in ("rope", "none"):
        raise Refused("model", "borrowed keys without gate, clip or added positions", "some")
    heads, _, d_head, _ = head_sizes(spec, x.width)
    q = t.linear("q_proj", x, heads * d_head, bias=spec.qkv_bias, shard=COLUMN)
    if spec.qk_norm is not None and not spec.qk_norm.turned:
        q = _normed(t, spec.qk_norm, "q", q, heads)
    if spec.position == "rope":
        (q,) = t.rope("rope", spec.rope, load.seq, d_head, q)
    if spec.qk_norm is not None and spec.qk_norm.turned:
        q = _normed(t, spec.qk_norm, "q", q, heads)
    k, v = around.borrowed(spec.window)
    return Projected(q, k, v, None)


def _normed(t: Trace, spec: QkNorm | None, of: str, x: Tensor, heads: Size) -> Tensor:
    """Queries or keys through their norm."""
    assert spec is not None
    match spec.span:
        case "head":
            return t.norm(f"{of}_norm", spec.norm, x, each=heads)
        case "heads":
            return t.norm(f"{of}_norm", spec.norm, x, heads=heads)
        case _:
            return t.norm(f"{of}_norm", spec.norm, x)


def _scoring(t: Trace, spec: Attention, q: Tensor, d_model: Size, load: Load, around: Around) -> tuple[Tensor, Scoring]:
    """What becomes of the scores, and the queries that meet the keys."""
    heads, _, d_head, _ = head_sizes(spec, d_model)
    if spec.temperature is not None:
        q = t.tempered("temperature", q, load.seq)
    distances = None
    if spec.position in ("transformer-xl", "xlnet"):
        each = spec.position == "xlnet"
        distances = projected_distances(t, d_model, heads * d_head, q, load, each=each)
        q = placed_queries(t, q)
        if each:
            segments(t, heads, d_head)
    of_distances = None, None
    if spec.disentangled is not None and around.distances is not None:
        of_distances = projected_vectors(
            t, spec.disentangled, around.distances, heads * d_head, heads, bias=spec.qkv_bias
        )
    # Heads of which a part turns are put together from both parts.
    rope = spec.rope
    parts = rope.joined or (rope.fraction < 1 and not rope.proportional)
    by_head = spec.position == "rope" and not rope.inputs and parts
    return q, Scoring(
        softmax=spec.softmax,
        causal=spec.causal,
        window=spec.masked_window if spec.window is None else spec.window,
        softcap=spec.softcap is not None,
        alibi=spec.position == "alibi",
        sinks=t.weight("sinks", heads, shard=COLUMN) if spec.sinks else None,
        shaw=spec.shaw,
        buckets=spec.buckets,
        bias=around.bias if spec.buckets is not None and spec.buckets.shared else None,
        distances=distances,
        of_each=spec.position == "xlnet",
        of_distances=of_distances,
        by_head=by_head,
        repeated=spec.repeated,
    )
