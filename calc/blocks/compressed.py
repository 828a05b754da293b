"""DeepSeek-V4's attention over a window and over compressed entries.

Source: transformers 5.23, models/deepseek_v4/modular_deepseek_v4.py (DeepSeek-AI 2026, DeepSeek-V4, section 2.3).
"""

from __future__ import annotations

from calc.blocks.attention import square_of
from calc.blocks.entries import compressor, twice_entries, whole
from calc.blocks.surroundings import Surroundings
from calc.spec import CompressedAttention
from calc.spec.load import Load
from calc.trace.functions import Attend
from calc.trace.op import Cache, Moves
from calc.trace.primitives.attend_live import Scoring
from calc.trace.primitives.grouped_linear import grouped_linear
from calc.trace.primitives.rope import turned
from calc.trace.shard import COLUMN, ROW
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def compressed_attention(t: Trace, spec: CompressedAttention, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """Queries [batch, n_heads, seq, d_head] over keys [batch, 1, window tokens + entries, d_head], also the values.

    FLOPs of scores and values 2 * batch * n_heads * d_head * pairs each; of the grouped projection 2 * tokens * n_heads
    * d_head * out_rank. Cache: keys and values of the window, counted as two tensors though both hold the same numbers;
    the compressor's entries and what it needs to make the next one.
    """
    heads, d_head = spec.n_heads, spec.d_head
    q_latent = t.norm("q_a_norm", spec.norm, t.linear("q_a_proj", x, spec.q_rank))
    bare = spec.norm.model_copy(update={"affine": False, "bias": False})
    q = t.norm("q_norm", bare, t.linear("q_b_proj", q_latent, heads * d_head, shard=COLUMN), each=heads)
    kv = t.norm("kv_norm", spec.norm, t.linear("kv_proj", x, d_head))
    q, kv = turned(t, spec.rope, load.seq, d_head, q, kv, name="rope")
    if spec.compressor is not None:
        entries = compressor(t, spec, spec.compressor, x, q_latent, load)
        kv = t.joined(kv, entries, rows=kv.rows + entries.rows, width=d_head)
    y = _attend(t, spec, q, kv, load)
    # As values are turned by their positions, so is what attention gives, and it is turned back by the query's.
    (y,) = turned(t, spec.rope, load.seq, d_head, y)
    y = grouped_linear(t, "o_a_proj", y, spec.n_out_groups, spec.out_rank, shard=COLUMN)
    return t.linear("o_b_proj", y, x.width, shard=ROW)


def _attend(t: Trace, spec: CompressedAttention, q: Tensor, kv: Tensor, load: Load) -> Tensor:
    heads, d_head = spec.n_heads, spec.d_head
    twice_pairs, cached, new = load.twice_pairs(spec.window), load.cached(spec.window), load.seq
    if spec.compressor is not None:
        before, fresh = whole(spec.compressor, load)
        twice_pairs, cached, new = twice_pairs + twice_entries(spec.compressor, load), cached + before, new + fresh
    keys = cached + new
    shape = Attend(load.batch, heads, load.seq, keys, d_head, d_head, window=spec.window)

    def moves() -> Moves:
        return Moves(
            (load.tokens * heads + load.batch * new) * d_head,
            load.tokens * heads * keys,
            cache_reads=load.batch * cached * d_head,
            cache_writes=2 * load.tokens * d_head,
        )

    return t.attend(
        q,
        kv,
        kv,
        shape,
        square_of(load, heads, 1, keys, d_head, d_head),
        load.batch * heads * twice_pairs,
        Scoring(causal=True, sinks=t.weight("sinks", heads, shard=COLUMN)),
        cached=cached,
        cache=Cache(load.vectors * 2 * d_head, spec.window),
        moves=moves,
        latent=True,
    )
