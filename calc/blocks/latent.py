"""Multi-head latent attention, and the indexer that chooses what it reads."""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.core import scores, softmax, values
from calc.blocks.linear import elementwise, linear, mapped, norm, product
from calc.functions import Attend, Matmul
from calc.load import Load
from calc.op import Cache, Op, Part
from calc.sizes import Size
from calc.spec import Indexer, Mla


def mla(spec: Mla, d_model: Size, load: Load) -> Part:
    """Queries, latent, scores, values, output projection (DeepSeek-V2, arXiv:2405.04434, equations 37 to 47).

    Shapes: latent [batch, tokens, kv_rank] and rotary key [batch, tokens, d_rope] are cached; queries [batch, n_heads,
    seq, d_nope + d_rope]; keys and values are the latent of every cached and new token times kv_b_proj, and all of them
    are made again for each new token. Where `load.absorbed`, that matrix is applied to the new token's queries and
    result instead, and attention reads the latent itself: 2 * n_heads * (kv_rank + d_rope) and 2 * n_heads * kv_rank
    FLOPs a pair in place of 2 * n_heads * (d_nope + d_rope) and 2 * n_heads * d_value (section 2.1.2).
    """
    heads, tokens, d_query = spec.n_heads, load.tokens, spec.d_nope + spec.d_rope
    # Of the choice of top_k tokens only the causal mask knows: eager attention computes all pairs and hides the others.
    window = spec.top_k if load.scores == "causal-exact" else None
    pairs = load.batch * heads * load.twice_pairs(window)
    expanded = tokens if load.absorbed else load.batch * (load.context + load.seq)
    d_key, d_value = (spec.kv_rank + spec.d_rope, spec.kv_rank) if load.absorbed else (d_query, spec.d_value)
    body: list[Part | Op] = []
    if spec.q_rank is None:
        body.append(linear("q_proj", tokens, d_model, heads * d_query, "attention"))
    else:
        body += [
            linear("q_a_proj", tokens, d_model, spec.q_rank, "attention", bias=spec.bias),
            norm("q_a_norm", spec.norm, (spec.q_rank,), tokens),
            linear("q_b_proj", tokens, spec.q_rank, heads * d_query, "attention"),
        ]
    body += [
        linear("kv_a_proj", tokens, d_model, spec.kv_rank + spec.d_rope, "attention", bias=spec.bias),
        norm("kv_a_norm", spec.norm, (spec.kv_rank,), tokens),
    ]
    if spec.position == "rope":
        body.append(mapped("rope", "attention", "rope", tokens * (heads + 1), spec.d_rope, follows=False))
    body.append(_expansion(spec, expanded, load))
    if spec.indexer is not None:
        body.append(_indexer(spec.indexer, d_model, spec.q_rank, load))
    cache = Cache(load.vectors * (spec.kv_rank + spec.d_rope))
    body += [
        *_core(spec, pairs * d_key, pairs * d_value, cache, load),
        linear("o_proj", tokens, heads * spec.d_value, d_model, "attention", bias=spec.bias),
    ]
    return Part("attention", tuple(body))


def _expansion(spec: Mla, rows: Size, load: Load) -> Op:
    """The product with kv_b_proj: of all latents, cached ones too, or a head at a time of what it is absorbed in."""
    heads, width = spec.n_heads, spec.d_nope + spec.d_value
    op = linear("kv_b_proj", rows, spec.kv_rank, heads * width, "attention")
    if not load.absorbed:
        cached = load.batch * load.context * spec.kv_rank
        return op.moving(reads=load.tokens * spec.kv_rank, cache_reads=cached)
    absorbed = replace(op, in_parts=True, shape=Matmul(rows, spec.kv_rank, width, heads))
    each = rows * heads
    return absorbed.moving(reads=each * (spec.d_nope + spec.kv_rank), writes=each * (spec.kv_rank + spec.d_value))


def _core(spec: Mla, of_keys: Size, of_values: Size, cache: Cache, load: Load) -> list[Op]:
    """Scores, softmax and values. Expanded, every head has keys of its own but for their rotary part, which is one for
    all; absorbed, all heads read the latent, as their keys and as their values."""
    keys, heads, width = load.context + load.seq, spec.n_heads, spec.kv_rank + spec.d_rope
    if load.absorbed:
        shape = Attend(load.batch, heads, load.seq, keys, width, spec.kv_rank, latent=True)
        first = scores(shape, of_keys, load.context, cache, width)
        return [first, softmax(shape), values(shape, of_values, load.context, again=True)]
    shape = Attend(load.batch * heads, 1, load.seq, keys, spec.d_nope + spec.d_rope, spec.d_value)
    first = scores(shape, of_keys, 0, cache)
    own = load.tokens * heads * shape.d_head + load.batch * keys * heads * spec.d_nope + load.tokens * spec.d_rope
    cached = load.batch * load.context * spec.d_rope
    first = first.moving(reads=own, cache_reads=cached, cache_writes=load.tokens * width)
    return [first, softmax(shape), values(shape, of_values, 0)]


def _indexer(spec: Indexer, d_model: Size, q_rank: Size, load: Load) -> Part:
    """A score for each pair of tokens: the heads' products, through ReLU, weighted and added up.

    Shapes: queries [batch, seq, n_heads, d_head], keys [batch, tokens, d_head], of which the cache keeps the keys.
    FLOPs 2 * n_heads * (d_head + 1) a pair: the weighted sum over heads is a product too (transformers 5.23,
    models/deepseek_v32/modeling_deepseek_v32.py, DeepseekV32Indexer). Choosing passes no gradient, so nothing goes back
    through it; what trains the indexer, a loss of its own, is not counted.
    """
    pairs = load.batch * spec.n_heads * load.twice_pairs(None)
    keys = load.context + load.seq
    body = (
        linear("q_b_proj", load.tokens, q_rank, spec.n_heads * spec.d_head, "attention"),
        linear("k_proj", load.tokens, d_model, spec.d_head, "attention"),
        norm("k_norm", spec.norm, (spec.d_head,), load.tokens),
        linear("weights_proj", load.tokens, d_model, spec.n_heads, "attention"),
        product(
            "scores",
            "attention",
            pairs * spec.d_head,
            Matmul(spec.n_heads * load.seq, keys, spec.d_head, load.batch, weighed=False),
            cache=Cache(load.vectors * spec.d_head),
        ).moving(
            reads=load.tokens * (spec.n_heads + 1) * spec.d_head,
            cache_reads=load.batch * load.context * spec.d_head,
            cache_writes=load.tokens * spec.d_head,
        ),
        product("weighted_sum", "attention", pairs, Matmul(1, keys, spec.n_heads, load.tokens, weighed=False)),
        elementwise("choose", "attention", "route", load.tokens * keys, load.tokens * keys),
    )
    return Part("indexer", tuple(replace(op, live=False, backward=0) for op in body))
