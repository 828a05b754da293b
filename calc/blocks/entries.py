"""The entries that DeepSeek-V4's attention reads in place of far tokens, and the indexer that chooses among them."""

from __future__ import annotations

from calc.sizes import Size, floor_div, minimum
from calc.spec import CompressedAttention, Compressor, EntryIndexer
from calc.spec.load import Load
from calc.trace.functions import Matmul
from calc.trace.op import Moves
from calc.trace.primitives.entry import weighed_entries
from calc.trace.primitives.product import product
from calc.trace.primitives.rope import turned
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def compressor(
    t: Trace, spec: CompressedAttention, made: Compressor, x: Tensor, q_latent: Tensor, load: Load
) -> Tensor:
    """The entries that these tokens complete: [batch * entries, d_head]."""
    with t.part("compressor", x, q_latent) as out:
        entries = _entries(t, spec, made, x, spec.d_head, load)
        if made.indexer is not None:
            _indexer(t, spec, made, made.indexer, x, q_latent, load)
        out.append(entries)
    return entries


def whole(spec: Compressor, load: Load) -> tuple[Size, Size]:
    """Entries of one sequence that are complete before this pass, and those that it completes."""
    before = floor_div(load.context, spec.rate)
    return before, floor_div(load.context + load.seq, spec.rate) - before


def twice_entries(spec: Compressor, load: Load) -> Size:
    """Twice the pairs of tokens and entries: all of them where everything is computed and hidden afterwards."""
    exact = load.scores == "causal-exact" and spec.indexer is not None
    return load.twice_entries(spec.rate, spec.indexer.top_k if exact and spec.indexer is not None else None)


def _entries(t: Trace, spec: CompressedAttention, made: Compressor, x: Tensor, width: Size, load: Load) -> Tensor:
    """Projections of each token to what becomes an entry of `width` and to its weight in it; the sum takes 0 FLOPs.

    A gradient flows through both projections of all tokens, also of those whose entry is not complete, but not where
    no entry is.
    """
    _, new = whole(made, load)
    each = 2 * width if made.overlap else width
    kv = t.linear("kv_proj", x, each, reached=minimum(new, 1))
    gate = t.linear("gate_proj", x, each, reached=minimum(new, 1))
    entries = weighed_entries(t, made, kv, gate, width, new, load)
    entries = t.norm("kv_norm", spec.norm, entries)
    return turned(t, spec.rope, new, spec.d_head, entries)[0]


def _indexer(
    t: Trace,
    spec: CompressedAttention,
    made: Compressor,
    indexer: EntryIndexer,
    x: Tensor,
    q_latent: Tensor,
    load: Load,
) -> None:
    """Entries of its own, and a score of each of them for each token: 2 * n_heads * d_head FLOPs a pair.

    Choosing passes no gradient, so nothing goes back through it.
    """
    heads, d_index = indexer.n_heads, indexer.d_head
    twice_pairs = load.batch * heads * load.twice_entries(made.rate, None)
    before, new = whole(made, load)
    keys = before + new
    each = Matmul(heads * load.seq, keys, d_index, load.batch, weighed=False)

    def moves() -> Moves:
        reads = (load.tokens * heads + load.batch * new) * d_index
        return Moves(reads, load.tokens * heads * keys, cache_reads=load.batch * before * d_index)

    with t.without_gradient(), t.part("indexer", x, q_latent):
        entries = _entries(t, spec, made, x, d_index, load)
        q = t.linear("q_b_proj", q_latent, heads * d_index)
        # All of it stands on every rank.
        fields = {"moves": moves, "split": "none"}
        scores = product(t, "scores", q, entries, load.tokens * heads, keys, each, twice_pairs * d_index, **fields)
        weights = t.linear("weights_proj", x, heads)
        t.op("choose", "elementwise", "route", (scores, weights), (t.made(load.tokens, keys, scores),))
