"""Self-attention: multi-head, multi-query and grouped-query, with windows, biases, norms and sinks."""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.attention_experts import routed_output
from calc.blocks.attention_inputs import head_sizes, normed, placed_vectors, projected
from calc.blocks.attention_keys import Known, known_keys
from calc.blocks.block_indexer import block_indexer
from calc.blocks.differential import difference, halves
from calc.blocks.disentangled import projected_vectors
from calc.blocks.distances import placed_queries, projected_distances, segments
from calc.blocks.dynamic_mask import dynamic_mask
from calc.blocks.span_convolution import span_convolution
from calc.blocks.sparse_blocks import attends_to_blocks, sparse_blocks
from calc.blocks.surroundings import Surroundings
from calc.errors import Refused
from calc.sizes import Size, exact_div, holds, is_exactly, is_symbolic, quotient
from calc.spec import Attention
from calc.spec.load import Load
from calc.spec.positions import BY_DISTANCE
from calc.trace.functions import Attend
from calc.trace.op import Cache
from calc.trace.primitives.attend_live import Scoring
from calc.trace.primitives.attend_saved import Square
from calc.trace.shard import COLUMN, ROW, key_value
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def attention(
    t: Trace, spec: Attention, x: Tensor, load: Load, around: Surroundings, *, d_out: Size | None = None
) -> Tensor:
    """Projections, scores, softmax, weighted values, output projection, which gives d_out values, or as many as x has.

    Shapes: q [batch, n_heads, seq, d_head]; k, v [batch, n_kv_heads, keys, d_head]; scores [batch, n_heads, seq, keys].
    FLOPs of scores and values: 2 * batch * n_heads * d_head * pairs each (Vaswani et al. 2017, section 3.2.1).
    Keys and values are lent to later layers of the same window that have none of their own.
    """
    if spec.longest is not None:
        _refuse_longer(load, spec.longest)
    in_blocks = spec.sparse is not None and attends_to_blocks(spec, spec.sparse, load)
    heads, kv_heads, d_head, _ = head_sizes(spec, x.width)
    q, k, v, gate, visits = projected(t, spec, x, load, around)
    around.lend(spec.window, k, v)
    beside = None if spec.span is None else span_convolution(t, spec.span, heads, x, q)
    side, in_squares = spec.squares, False
    if side is not None and not (isinstance(load.seq, int) and load.seq == side**2):
        # Each square is a sequence of its own, copied out and back; no kernel is counted for it.
        load, in_squares = replace(load, batch=load.batch * exact_div(load.seq, side**2), seq=side**2), True
        q, k, v = (t.joined(each, rows=each.rows, width=each.width) for each in (q, k, v))
    load = load.by_document
    k, v, known = known_keys(t, spec, k, v, x.width, load, around)
    q, scoring = _scoring(t, spec, q, x.width, load, around)
    if spec.dynamic_mask is not None:
        if known.ahead is not None:
            raise Refused("adapter", "no keys and values in front of all others, where keys mask themselves", "prefix")
        own = dynamic_mask(t, spec.dynamic_mask, v, heads, kv_heads, load, known.cached, bias=spec.qkv_bias)
        scoring = replace(scoring, own=own)
    if spec.indexer is not None:
        if known.ahead is not None:
            raise Refused(
                "adapter", "no keys and values in front of all others, among which an indexer chooses", "prefix"
            )
        block_indexer(t, spec.indexer, spec.rope, d_head, x, load)
        mask = load.batch * load.seq * known.keys
        scoring = replace(scoring, masked=True, mask=mask)
    if in_blocks and spec.sparse is not None:
        y = sparse_blocks(t, spec.sparse, q, k, v, heads, load, known)
    else:
        y = _weighted(t, spec, q, k, v, x.width, load, known, scoring)
    if beside is not None:
        y = t.joined(y, beside, rows=y.rows, width=y.width + beside.width)
    if in_squares:
        y = t.joined(y, rows=y.rows, width=y.width)
    return _output(t, spec, x, y, gate, visits, load, x.width if d_out is None else d_out)


def _weighted(
    t: Trace,
    spec: Attention,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    d_model: Size,
    load: Load,
    known: Known,
    scoring: Scoring,
) -> Tensor:
    """[batch * seq, n_heads * d_value]: each query's weighted values; of two halves of them their difference."""
    heads, kv_heads, d_head, d_value = head_sizes(spec, d_model)
    shape = Attend(
        load.batch * kv_heads,
        quotient(heads, kv_heads),
        load.seq,
        known.keys,
        d_head,
        d_value,
        spec.causal,
        known.window,
        spec.chunked,
    )
    held = kv_heads * (d_head + d_value)
    cache = Cache(load.vectors * held, spec.window, fixed=known.read * held, heads=kv_heads)
    square = square_of(load, heads, kv_heads, load.seq + known.read, d_head, d_value)
    fields = {"cached": known.cached, "uncached": 0 if known.ahead is None else known.ahead}
    kept = cache if spec.causal and spec.kv != "earlier" and spec.cached else None
    if spec.differential is None:
        return t.attend(q, k, v, shape, square, known.twice_pairs, scoring, cache=kept, **fields)
    first, second = halves(t, v)
    first = t.attend(q, k, first, shape, square, known.twice_pairs, scoring, cache=kept, **fields)
    second = t.attend(q, k, second, shape, square, known.twice_pairs, scoring, **fields)
    return difference(t, spec.differential, q, first, second, heads)


def _refuse_longer(load: Load, longest: int) -> None:
    """Errors: Refused for sequences of more than `longest`; a formula is taken to be of shorter ones."""
    if not is_symbolic(load.seq) and holds(load.seq > longest):
        field, unit = ("seq", "tokens") if load.source is None else ("source_seq", "steps")
        expected = f"at most {longest} {unit}, more of which do not all see one another (not described)"
        raise Refused(field, expected, load.seq)


def _output(
    t: Trace,
    spec: Attention,
    x: Tensor,
    y: Tensor,
    gate: Tensor | None,
    visits: Tensor | None,
    load: Load,
    d_out: Size,
) -> Tensor:
    """What the weighted values y of all heads become: gated, normed, projected to d_out values."""
    if gate is not None:
        y = t.gated_output("gate", y, gate)
    if spec.head_gate is not None:
        y = t.gated_heads(
            "head_gate", y, t.linear("head_gate_proj", x, spec.n_heads, shard=COLUMN), soft=spec.head_gate == "softplus"
        )
    if spec.inner_norm is not None:
        y = t.norm("inner_norm", spec.inner_norm, y, across=True)
    if spec.experts is not None and visits is not None:
        return routed_output(t, spec.experts, y, visits, x.width, load, bias=spec.out_bias)
    return t.linear("o_proj", y, d_out, bias=spec.out_bias, shard=ROW)


def cross_attention(
    t: Trace, spec: Attention, x: Tensor, load: Load, around: Surroundings, *, keeps: bool = True
) -> Tensor:
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
        placed, keyed = placed_vectors(t, x, around.places), placed_vectors(t, source, around.source_places)
    q = t.linear("q_proj", placed, heads * d_head, bias=spec.qkv_bias, shard=COLUMN)
    k = t.linear("k_proj", keyed, kv_heads * d_head, bias=k_bias, shard=key_value(kv_heads))
    v = t.linear("v_proj", source, kv_heads * d_value, bias=spec.qkv_bias, shard=key_value(kv_heads))
    if spec.qk_norm is not None:
        q, k = normed(t, spec.qk_norm, "q", q, heads), normed(t, spec.qk_norm, "k", k, kv_heads)
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


def _scoring(
    t: Trace, spec: Attention, q: Tensor, d_model: Size, load: Load, around: Surroundings
) -> tuple[Tensor, Scoring]:
    """What becomes of the scores, and the queries that meet the keys."""
    heads, _, d_head, _ = head_sizes(spec, d_model)
    if spec.temperature is not None:
        q = t.tempered("temperature", q, load.seq)
    distances = None
    each = spec.position in ("transformer-xl-each", "xlnet")
    if spec.position in BY_DISTANCE:
        further = spec.position == "xlnet"
        distances = projected_distances(t, d_model, heads * d_head, q, load, each=each, further=further)
        q = placed_queries(t, q)
        if further:
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
        mask=around.mask,
        common_mask=not is_exactly(around.mask, 0),
        held=around.held,
        softcap=spec.softcap is not None,
        alibi=spec.position == "alibi",
        sinks=t.weight("sinks", heads, shard=COLUMN) if spec.sinks else None,
        shaw=spec.shaw,
        buckets=spec.buckets,
        bias=around.bias if spec.buckets is not None and spec.buckets.shared else None,
        distances=distances,
        of_each=each,
        of_distances=of_distances,
        by_head=by_head,
        repeated=spec.repeated,
        masked=spec.merged,
    )
