"""The indexer that chooses blocks of tokens for attention over keys and values (Qwen4)."""

from __future__ import annotations

from dataclasses import replace

from calc.sizes import Size, floor_div
from calc.spec import BlockIndexer, Norm, Rope
from calc.spec.load import Load
from calc.trace.footprint import Footprint
from calc.trace.functions import Matmul
from calc.trace.op import Cache, Moves
from calc.trace.primitives.product import product
from calc.trace.primitives.rope import turned
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def block_indexer(t: Trace, spec: BlockIndexer, rope: Rope, d_head: Size, x: Tensor, load: Load) -> None:
    """A score of every complete block for each token, of which some are chosen.

    Shapes: queries [batch, seq, n_heads, d_index], keys [batch, tokens, d_index], of which the cache keeps the keys as
    they were projected; means of all blocks are made again in each pass. FLOPs 2 * n_heads * d_index a pair of a token
    and a block that is complete where it stands: no others are multiplied, however attention's pairs are counted.
    d_head: of attention, of which as many values turn. Choosing passes no gradient, so nothing goes back through it.
    Source: transformers 5.23, models/qwen4_exp/modeling_qwen4_exp.py, Qwen4ExpTextQSAIndexer.
    """
    heads, norm = spec.n_heads, Norm(unit_offset=True, eps=spec.eps)
    blocks = floor_div(load.context + load.seq, spec.rate)
    pairs = replace(load, scores="causal-exact").twice_entries(spec.rate, None)
    each = Matmul(heads * load.seq, blocks, spec.d_head, load.batch, weighed=False)
    cached = load.batch * load.context * spec.d_head

    def moves() -> Moves:
        return Moves((load.tokens * heads + load.batch * blocks) * spec.d_head, load.tokens * heads * blocks)

    def chosen_bytes(footprint: Footprint) -> Size:
        """What is chosen as the mask of all heads; where tokens are chosen one query at a time, scores are small."""
        return footprint.of(Tensor(load.tokens, load.context + load.seq))

    with t.without_gradient(), t.part("indexer", x, role="indexer"):
        qk = t.linear("qk_proj", x, (heads + 1) * spec.d_head)
        (q,) = turned(t, rope, load.seq, d_head, t.norm("q_norm", norm, qk.columns(heads * spec.d_head), each=heads))
        keys = qk.columns(spec.d_head)
        means = t.made(load.batch * blocks, spec.d_head, keys)
        t.op(
            "means",
            "elementwise",
            "pool",
            (keys,),
            (means,),
            cache=Cache(load.vectors * spec.d_head, index=True),
            moves=lambda: Moves(keys.elements, means.elements, cache_reads=cached, cache_writes=keys.elements),
        )
        (k,) = turned(t, rope, blocks, d_head, t.norm("k_norm", norm, means))
        # All of it stands on every rank.
        flops = load.batch * heads * spec.d_head * pairs
        scores = product(t, "scores", q, k, load.tokens * heads, blocks, each, flops, split="none", moves=moves)
        scores.wide, scores.inside = True, "compiled"
        chosen = t.made(load.tokens, blocks, scores)
        t.op("choose", "elementwise", "route", (scores,), (chosen,), live_bytes=chosen_bytes)


def twice_unseen(spec: BlockIndexer, load: Load) -> Size:
    """Twice the pairs of one head and sequence that are hidden because a block was not chosen, which only an exact
    count knows."""
    if load.scores != "causal-exact":
        return 0
    complete, chosen = (load.twice_entries(spec.rate, top_k) for top_k in (None, floor_div(spec.budget, spec.rate)))
    return spec.rate * (complete - chosen)
