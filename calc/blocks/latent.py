"""Multi-head latent attention."""

from __future__ import annotations

from calc.blocks.attention import square_of
from calc.blocks.indexer import indexer
from calc.blocks.surroundings import Surroundings
from calc.sizes import Size
from calc.spec import Mla
from calc.spec.load import Load
from calc.trace.functions import Attend, Matmul
from calc.trace.op import Cache, Moves, Weight
from calc.trace.primitives.attend_live import Scoring
from calc.trace.shard import COLUMN, ROW
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace

UP = "mla_up_proj"
"""The module that makes queries, keys and values of latents: their norms, the products behind them, and what turns."""


def latent_attention(t: Trace, spec: Mla, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """Queries, latent, scores, values, output projection (DeepSeek-V2, arXiv:2405.04434, equations 37 to 47).

    Shapes: latent [batch, tokens, kv_rank] and rotary key [batch, tokens, d_rope] are cached; queries [batch, n_heads,
    seq, d_nope + d_rope]; keys and values are the latent of every cached and new token times kv_b_proj, and all of them
    are made again for each new token. Where `load.absorbed`, that matrix is applied to the new token's queries and
    result instead, and attention reads the latent itself: 2 * n_heads * (kv_rank + d_rope) and 2 * n_heads * kv_rank
    FLOPs a pair in place of 2 * n_heads * (d_nope + d_rope) and 2 * n_heads * d_value (section 2.1.2).
    """
    heads, d_query = spec.n_heads, spec.d_nope + spec.d_shared
    q_latent = x
    if spec.q_rank is None:
        with t.module(UP):
            q = t.linear("q_proj", x, heads * d_query, shard=COLUMN)
    else:
        q_small = t.linear("q_a_proj", x, spec.q_rank, bias=spec.bias)
        with t.module(UP):
            q_latent = t.norm("q_a_norm", spec.norm, q_small)
            q = t.linear("q_b_proj", q_latent, heads * d_query, shard=COLUMN)
    if spec.q_scale != 1.0:
        with t.module(UP):
            q = t.scaled("q_scale", q)
    q_rope, latent, k_rope = (_own if spec.kv == "own" else _borrowing)(t, spec, x, q, load, around)
    load = load.by_document
    twice_pairs = load.batch * heads * _twice_pairs(spec, load)
    read = _absorbed if load.absorbed else _expanded
    expanded = read(t, spec, q, latent, load)
    if spec.indexer is not None:
        indexer(t, spec.indexer, spec.pool, x, q_latent if spec.indexer.q_norm is None else x, load)
    core = _over_latents if load.absorbed else _over_keys
    y = core(t, spec, (q, q_rope, latent, k_rope, expanded), twice_pairs, load)
    if spec.gate:
        y = t.gated_output("gate", y, t.linear("gate_proj", x, heads * spec.d_value, shard=COLUMN))
    if spec.head_gate:
        y = t.gated_heads("head_gate", y, t.linear("head_gate_proj", x, heads, shard=COLUMN), wide=True)
    return t.linear("o_proj", y, x.width, bias=spec.bias, shard=ROW)


def _own(t: Trace, spec: Mla, x: Tensor, q: Tensor, load: Load, around: Surroundings) -> tuple[Tensor, Tensor, Tensor]:
    """What turns of the queries, the new tokens' latents, and the part of their keys that heads share. Latents and keys
    are lent to later layers of this position that have none of their own."""
    small = t.linear("kv_a_proj", x, spec.kv_rank + spec.d_shared, bias=spec.bias)
    q_rope, k_rope = q.columns(spec.n_heads * spec.d_shared), small.columns(spec.d_shared)
    with t.module(UP):
        latent = t.norm("kv_a_norm", spec.norm, small.columns(spec.kv_rank))
        if spec.latent_scale != 1.0:
            latent = t.scaled("latent_scale", latent)
        if spec.position == "rope":
            q_rope, k_rope = t.rope("rope", spec.rope, load.seq, spec.d_shared, q_rope, k_rope)
    t.hold(q, small, latent, q_rope, k_rope)
    around.lend(spec.position, latent, k_rope)
    return q_rope, latent, k_rope


def _borrowing(
    t: Trace, spec: Mla, x: Tensor, q: Tensor, load: Load, around: Surroundings
) -> tuple[Tensor, Tensor, Tensor]:
    """As _own, over latents and keys of an earlier layer, which have turned there."""
    q_rope = q.columns(spec.n_heads * spec.d_shared)
    if spec.position == "rope":
        (q_rope,) = t.rope("rope", spec.rope, load.seq, spec.d_shared, q_rope)
    latent, k_rope = around.borrowed(spec.position)
    t.hold(q, latent, q_rope, k_rope)
    return q_rope, latent, k_rope


def _twice_pairs(spec: Mla, load: Load) -> Size:
    """Twice the pairs of one head and one sequence. Of the choice of top_k tokens only the causal mask knows: eager
    attention computes all pairs and hides the others."""
    if spec.top_k is None or load.scores != "causal-exact":
        return load.twice_pairs(None)
    return load.twice_pairs(spec.top_k) if spec.pool is None else load.twice_pooled(spec.pool, spec.top_k)


def _expanded(t: Trace, spec: Mla, q: Tensor, latent: Tensor, load: Load) -> Tensor:
    """Keys but for their rotary part, and values, of all heads: kv_b_proj times the cached latents and the new ones
    that lie behind them."""
    rows, width = load.batch * (load.context + load.seq), spec.n_heads * (spec.d_nope + spec.d_value)

    def moves() -> Moves:
        return Moves(latent.elements, rows * width, cache_reads=load.batch * load.context * spec.kv_rank)

    with t.module(UP):
        return t.linear("kv_b_proj", latent.view(rows, spec.kv_rank), width, shard=COLUMN, moves=moves)


def _absorbed(t: Trace, spec: Mla, q: Tensor, latent: Tensor, load: Load) -> Tensor:
    """Queries that meet latents: kv_b_proj, half of which is applied to queries and half to what attention gives, one
    head at a time."""
    heads, width = spec.n_heads, spec.d_nope + spec.d_value
    weight = t.weight("kv_b_proj.weight", heads * width, spec.kv_rank, shard=COLUMN)
    y = t.made(q.rows, heads * (spec.kv_rank + spec.d_shared), q, weights=(weight,), split="tensor")
    each = q.rows * heads
    t.op(
        "kv_b_proj",
        "linear",
        "matmul",
        (q,),
        (y,),
        weights=(weight,),
        flops=2 * each * width * spec.kv_rank,
        rows=q.rows,
        in_parts=True,
        shape=Matmul(q.rows, spec.kv_rank, width, heads),
        moves=lambda: Moves(each * (spec.d_nope + spec.kv_rank), each * (spec.kv_rank + spec.d_value)),
    )
    return y


def _over_keys(t: Trace, spec: Mla, read: tuple[Tensor, ...], twice_pairs: Size, load: Load) -> Tensor:
    """Every head has keys of its own but for their rotary part, which is one for all."""
    q, q_rope, _, k_rope, expanded = read
    heads, keys, d_key = spec.n_heads, load.context + load.seq, spec.d_nope + spec.d_shared
    shape = Attend(load.batch * heads, 1, load.seq, keys, d_key, spec.d_value)

    def moves() -> Moves:
        own = load.tokens * heads * d_key + load.batch * keys * heads * spec.d_nope + load.tokens * spec.d_shared
        return Moves(
            own,
            shape.groups * load.seq * keys,
            cache_reads=load.batch * load.context * spec.d_shared,
            cache_writes=_writes(spec, load),
        )

    mask = 0 if spec.top_k is None else load.batch * load.seq * load.seq
    # Queries and keys are put together from what turns and what does not.
    with t.module(UP):
        q = t.joined(q, q_rope, rows=q.rows, width=heads * d_key)
        k = t.joined(expanded, k_rope, rows=expanded.rows, width=heads * d_key)
    q = _grown(t, spec, q, load)
    return t.attend(
        q,
        k,
        expanded.columns(heads * spec.d_value),
        shape,
        square_of(load, heads, heads, load.seq, d_key, spec.d_value),
        twice_pairs,
        Scoring(softmax=spec.softmax, causal=True, mask=mask, sinks=_sinks(t, spec), by_head=True),
        cache=_cache(spec, load),
        moves=moves,
    )


def _over_latents(t: Trace, spec: Mla, read: tuple[Tensor, ...], twice_pairs: Size, load: Load) -> Tensor:
    """All heads read the latent, as their keys and as their values."""
    _, _, latent, k_rope, absorbed = read
    heads, keys, d_key = spec.n_heads, load.context + load.seq, spec.kv_rank + spec.d_shared
    k = t.joined(latent, k_rope, rows=latent.rows, width=d_key)
    shape = Attend(load.batch, heads, load.seq, keys, d_key, spec.kv_rank, latent=True)

    def moves() -> Moves:
        return Moves(
            load.tokens * (heads + 1) * d_key,
            load.tokens * heads * keys,
            cache_reads=load.batch * load.context * d_key,
            cache_writes=_writes(spec, load),
        )

    y = t.attend(
        _grown(t, spec, absorbed, load),
        k,
        k.columns(spec.kv_rank),
        shape,
        square_of(load, heads, 1, load.seq, d_key, spec.kv_rank),
        twice_pairs,
        Scoring(softmax=spec.softmax, sinks=_sinks(t, spec)),
        cached=load.context,
        cache=_cache(spec, load),
        moves=moves,
        latent=True,
    )
    # The other half of the matrix, which is counted with the first, makes values of it.
    return t.joined(y, rows=y.rows, width=heads * spec.d_value)


def _grown(t: Trace, spec: Mla, q: Tensor, load: Load) -> Tensor:
    """Queries that grow with their position, where they do."""
    if spec.head_temperature:
        return t.head_tempered("temperature", q, spec.n_heads, load.seq, shard=COLUMN)
    return q if spec.temperature is None else t.tempered("temperature", q, load.seq)


def _sinks(t: Trace, spec: Mla) -> Weight | None:
    """A logit a head that takes part in the softmax, where there is one."""
    return t.weight("sinks", spec.n_heads, shard=COLUMN) if spec.sinks else None


def _cache(spec: Mla, load: Load) -> Cache | None:
    return Cache(load.vectors * (spec.kv_rank + spec.d_shared)) if spec.kv == "own" else None


def _writes(spec: Mla, load: Load) -> Size:
    """Numbers that new tokens add to the cache."""
    return load.tokens * (spec.kv_rank + spec.d_shared) if spec.kv == "own" else 0
