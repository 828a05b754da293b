"""Self-attention: multi-head, multi-query and grouped-query, with windows, biases, norms and sinks."""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.conformer import distance_scores
from calc.blocks.core import matrix, scores, softcap, softmax, values
from calc.blocks.linear import linear, mapped, norm
from calc.functions import Attend, Matmul
from calc.load import Load
from calc.op import Cache, Moves, Op, Part, Weight
from calc.sizes import Size, exact_div, quotient
from calc.spec import Attention, Buckets, QkNorm, Shaw


def attention(spec: Attention, d_model: Size, load: Load, *, d_out: Size | None = None) -> Part:
    """Projections, scores, softmax, weighted values, output projection.

    Shapes: q [batch, n_heads, seq, d_head]; k, v [batch, n_kv_heads, keys, d_head]; scores [batch, n_heads, seq, keys].
    FLOPs of scores and values: 2 * batch * n_heads * d_head * pairs each (Vaswani et al. 2017, section 3.2.1).
    d_out: width of the result, None for d_model, which is what it reads.
    """
    heads, kv_heads, d_head, d_value = head_sizes(spec, d_model)
    if spec.squares is not None:
        # Each square is a sequence of its own.
        load = replace(load, batch=load.batch * exact_div(load.seq, spec.squares**2), seq=spec.squares**2)
    tokens = load.tokens
    pairs = load.batch * heads * load.twice_pairs(spec.window, spec.causal, spec.chunked)
    queries = heads * (d_head + d_value) if spec.gate else heads * d_head
    body: list[Op] = []
    if spec.fused:
        width = queries + kv_heads * (d_head + d_value)
        body.append(linear("qkv_proj", tokens, d_model, width, "attention", bias=spec.qkv_bias))
    else:
        k_bias = spec.qkv_bias if spec.k_bias is None else spec.k_bias
        body.append(linear("q_proj", tokens, d_model, queries, "attention", bias=spec.qkv_bias))
        if spec.kv != "earlier":
            body.append(linear("k_proj", tokens, d_model, kv_heads * d_head, "attention", bias=k_bias))
        if spec.kv == "own":
            body.append(linear("v_proj", tokens, d_model, kv_heads * d_value, "attention", bias=spec.qkv_bias))
    body += _turned(spec, heads, kv_heads, d_head, d_value, tokens)
    cached = load.cached(spec.window)
    shape = Attend(
        load.batch * kv_heads,
        quotient(heads, kv_heads),
        load.seq,
        cached + load.seq,
        d_head,
        d_value,
        spec.causal,
        spec.window,
        spec.chunked,
    )
    kept = Cache(load.vectors * kv_heads * (d_head + d_value), spec.window, heads=kv_heads)
    keeps = spec.causal and spec.kv != "earlier"
    body.append(scores(shape, pairs * d_head, cached, kept if keeps else None, d_head + d_value if keeps else 0))
    body += _between(spec, shape, load, d_model, heads, d_head, pairs)
    body.append(values(shape, pairs * d_value, cached))
    if spec.shaw is not None and spec.shaw.values:
        body.append(_relative("relative_value", spec.shaw, pairs, shape, d_value))
    if spec.gate:
        body.append(mapped("gate", "attention", "swiglu", tokens * heads, d_value, operands=2, follows=False))
    given = d_model if d_out is None else d_out
    body.append(linear("o_proj", tokens, heads * d_value, given, "attention", bias=spec.out_bias))
    return Part("attention", tuple(body))


def _turned(spec: Attention, heads: Size, kv_heads: Size, d_head: Size, d_value: Size, tokens: Size) -> list[Op]:
    """Norms of queries, keys and values, and rotary positions."""
    own = spec.kv != "earlier"
    body: list[Op] = []
    if spec.qk_norm:
        body.append(_qk_norm("q_norm", spec.qk_norm, heads, d_head, tokens))
    if spec.qk_norm and own:
        body.append(_qk_norm("k_norm", spec.qk_norm, kv_heads, d_head, tokens))
    if spec.v_norm and own:
        body.append(norm("v_norm", spec.v_norm, (d_value,), tokens * kv_heads, follows=False))
    if spec.position == "rope":
        turned = heads + kv_heads if own else heads
        follows = spec.qk_norm is not None
        body.append(mapped("rope", "attention", "rope", tokens * turned, d_head, follows=follows))
    return body


def _between(
    spec: Attention, shape: Attend, load: Load, d_model: Size, heads: Size, d_head: Size, pairs: Size
) -> list[Op]:
    """What stands between scores and weighted values: all that is added to the scores, and their softmax."""
    sinks = (Weight("sinks", (heads,), "attention"),) if spec.sinks else ()
    body: list[Op] = []
    bias, fresh = 0, 0
    if spec.position == "transformer-xl":
        body += distance_scores(load, d_model, heads, d_head)
        fresh = matrix(shape)
    if spec.shaw is not None:
        body.append(_relative("relative_key", spec.shaw, pairs, shape, d_head))
        fresh = matrix(shape)
    if spec.buckets is not None and spec.buckets.shared:
        bias = heads * shape.queries * shape.keys
    elif spec.buckets is not None:
        body.append(relative_bias(spec.buckets, heads, shape.queries, shape.keys))
        fresh = heads * shape.queries * shape.keys
    if spec.softcap is not None:
        body.append(softcap(shape))
    return [*body, softmax(shape, sinks, bias=bias, fresh=fresh)]


def cross_attention(
    spec: Attention, d_model: Size, d_source: Size, load: Load, source: Size, *, keeps: bool = True
) -> Part:
    """Attention of the new tokens over `source` vectors of width d_source for each sequence, an encoder's result.

    Decoding finds the source's keys and values in the cache, so their projections do not run. keeps: whether later
    tokens come to read them there.
    """
    heads, kv_heads, d_head, d_value = head_sizes(spec, d_model)
    read = 0 if load.decode else load.batch * source
    pairs = 2 * load.tokens * source * heads
    k_bias = spec.qkv_bias if spec.k_bias is None else spec.k_bias
    kept = d_head + d_value if keeps else 0
    cache = Cache(fixed=source * kv_heads * kept, heads=kv_heads) if keeps else None
    shape = Attend(load.batch * kv_heads, quotient(heads, kv_heads), load.seq, source, d_head, d_value, causal=False)
    cached = source if load.decode else 0
    body = (
        linear("q_proj", load.tokens, d_model, heads * d_head, "attention", bias=spec.qkv_bias),
        linear("k_proj", read, d_source, kv_heads * d_head, "attention", bias=k_bias),
        linear("v_proj", read, d_source, kv_heads * d_value, "attention", bias=spec.qkv_bias),
        scores(shape, pairs * d_head, cached, cache, kept),
        softmax(shape),
        values(shape, pairs * d_value, cached),
        linear("o_proj", load.tokens, heads * d_value, d_model, "attention", bias=spec.out_bias),
    )
    return Part("cross_attention", body)


def relative_bias(spec: Buckets, heads: Size, queries: Size, keys: Size) -> Op:
    """T5's table [n_buckets, n_heads] of numbers added to the scores [n_heads, queries, keys]; a lookup, 0 FLOPs.

    The table is small and looked up many times: it is read from memory once.
    """
    weight = Weight("relative_bias.weight", (spec.n_buckets, heads), "positional")
    made = heads * queries * keys
    return Op(
        "relative_bias",
        "gather",
        "positional",
        weights=(weight,),
        function="gather",
        moves=lambda: Moves(0, made, to_chain=made),
    )


def _relative(name: str, spec: Shaw, pairs: Size, shape: Attend, width: Size) -> Op:
    """Every query against the vector of each key's distance, or every weight times that vector.

    As many products as the scores themselves: 2 * batch * n_heads * width * pairs (Shaw et al. 2018, section 3.3).
    What comes out is added to the scores, or to the weighted values. The vectors [queries, keys, width] are looked up
    as they are needed, so that the table is what memory gives.
    """
    weight = Weight(f"{name}.weight", (2 * spec.max_distance + 1, width), "positional")
    rows = shape.groups * shape.heads
    of_key = name == "relative_key"
    vectors = rows * shape.queries * width
    return Op(
        name,
        "attention",
        "positional",
        pairs * width,
        (weight,),
        function="batched_matmul",
        shape=Matmul(*((rows, shape.keys, width) if of_key else (rows, width, shape.keys)), shape.queries),
        moves=lambda: Moves(vectors, matrix(shape)) if of_key else Moves(matrix(shape) + vectors, vectors),
    )


def head_sizes(spec: Attention, d_model: Size) -> tuple[Size, Size, Size, Size]:
    """(n_heads, n_kv_heads, d_head, d_value), the ones left None filled in from the others."""
    kv_heads = spec.n_heads if spec.n_kv_heads is None else spec.n_kv_heads
    d_head = exact_div(d_model, spec.n_heads) if spec.d_head is None else spec.d_head
    return spec.n_heads, kv_heads, d_head, d_head if spec.d_value is None else spec.d_value


def _qk_norm(name: str, spec: QkNorm, heads: Size, d_head: Size, tokens: Size) -> Op:
    shape = {"head": (d_head,), "heads": (heads, d_head), "all": (heads * d_head,)}[spec.span]
    rows = tokens * heads if spec.span == "head" else tokens
    return norm(name, spec.norm, shape, rows, follows=False, feeds=True)
