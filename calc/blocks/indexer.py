"""The indexer that chooses what latent attention reads: tokens, or pools of them."""

from __future__ import annotations

from calc.sizes import Size, at_least, floor_div
from calc.spec import Indexer
from calc.spec.load import Load
from calc.trace.footprint import Footprint
from calc.trace.functions import Matmul
from calc.trace.op import Cache, Moves
from calc.trace.primitives.product import product
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def indexer(t: Trace, spec: Indexer, pool: Size | None, x: Tensor, q_latent: Tensor, load: Load) -> None:
    """A score for each pair of a token and a key: the heads' products, through ReLU, weighted and added up.

    Shapes: queries [batch, seq, n_heads, d_head]; keys [batch, tokens, d_head], which are cached, or one for each whole
    pool of tokens, [batch, tokens // pool, d_head], made anew in each pass.
    FLOPs 2 * n_heads * (d_head + 1) a pair: the weighted sum over heads is a product too (transformers 5.23,
    models/deepseek_v32/modeling_deepseek_v32.py, DeepseekV32Indexer). Choosing passes no gradient, so nothing goes back
    through it; what trains the indexer, a loss of its own, is not counted.
    """
    tokens = load.context + load.seq
    keys = tokens if pool is None else floor_div(tokens, pool)
    twice = load.twice_pairs(None) if pool is None else load.twice_entries(pool, None)
    twice_pairs = load.batch * spec.n_heads * twice
    each = Matmul(spec.n_heads * load.seq, keys, spec.d_head, load.batch, weighed=False)
    width = spec.d_head if pool is None else 2 * spec.d_head + 1

    def moves() -> Moves:
        read = load.tokens * spec.n_heads + load.batch * (load.seq if pool is None else keys)
        new = Moves(read * spec.d_head, load.tokens * spec.n_heads * keys)
        return new if pool is not None else Moves(new.reads, new.writes, *_cached(load, width))

    def live_bytes(footprint: Footprint) -> Size:
        """In fp32, before and after ReLU. Of several sequences, the keys are copied for each query (a broadcast product
        in PyTorch)."""
        copies = at_least(load.batch, 2) * load.tokens * spec.d_head
        return (
            0 if footprint.compiled else footprint.of(Tensor(2 * load.tokens * spec.n_heads + copies, keys, wide=True))
        )

    with t.without_gradient(), t.part("indexer", x, q_latent, role="indexer") as out:
        read = q_latent if spec.q_norm is None else t.norm("q_norm", spec.q_norm, q_latent)
        q = t.linear("q_b_proj", read, spec.n_heads * spec.d_head)
        if spec.head_temperature:
            q = t.head_tempered("temperature", q, spec.n_heads, load.seq)
        k = t.norm("k_norm", spec.norm, t.linear("k_proj", x, spec.d_head))
        cache = Cache(load.vectors * width, index=True)
        if pool is not None:
            k, cache = _pools(t, spec, pool, x, k, load, cache), None
        weights = t.linear("weights_proj", x, spec.n_heads)
        # All of it stands on every rank.
        fields = {"cache": cache, "moves": moves, "live_bytes": live_bytes, "split": "none"}
        scores = product(t, "scores", q, k, load.tokens * spec.n_heads, keys, each, twice_pairs * spec.d_head, **fields)
        weighted = Matmul(1, keys, spec.n_heads, load.tokens, weighed=False)
        scores.wide, scores.inside = True, "compiled"
        found = product(t, "weighted_sum", weights, scores, load.tokens, keys, weighted, twice_pairs, split="none")
        found.wide = True
        chosen = t.made(load.tokens, keys, found)
        t.op("choose", "elementwise", "route", (found,), (chosen,))
        out.append(chosen)
    t.hold(chosen)


def _pools(t: Trace, spec: Indexer, pool: Size, x: Tensor, k: Tensor, load: Load, cache: Cache) -> Tensor:
    """k [tokens, d_head] -> one key a whole pool of a sequence's tokens, cached ones too: the sum of theirs, weighed
    value by value by a softmax of a projection of each token and a learned number for its place.

    2 * tokens * d_model * d_head FLOPs of the projection; the sum takes 0. Cached of each token: its key, what weighs
    it, and a value that says whether it is one or padding (transformers 5.23, models/glm5_next, Glm5NextTextIndexer).
    """
    gate = t.linear("pool_gate", x, spec.d_head)
    bias = t.weight("pool_bias", pool, spec.d_head)
    keys = t.made(load.batch * floor_div(load.context + load.seq, pool), spec.d_head, k, gate, weights=(bias,))
    t.op(
        "pool",
        "elementwise",
        "pool",
        (k, gate),
        (keys,),
        weights=(bias,),
        cache=cache,
        moves=lambda: Moves(k.elements + gate.elements, keys.elements, *_cached(load, 2 * spec.d_head + 1)),
    )
    return keys


def _cached(load: Load, width: Size) -> tuple[Size, Size]:
    """What is read of the cache and written to it, where each token keeps so many elements."""
    return load.batch * load.context * width, load.tokens * width
