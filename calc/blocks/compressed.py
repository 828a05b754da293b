"""DeepSeek-V4's attention over a window and over compressed entries.

Source: transformers 5.23, models/deepseek_v4/modular_deepseek_v4.py (DeepSeek-AI 2026, DeepSeek-V4, section 2.3).
"""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.core import scores, softmax, values
from calc.blocks.linear import elementwise, linear, norm, product
from calc.functions import Attend, Matmul
from calc.load import Load
from calc.op import Cache, Moves, Op, Part, Weight
from calc.sizes import Size, exact_div, floor_div, minimum, quotient
from calc.spec import CompressedAttention, Compressor, EntryIndexer, Norm


def compressed_attention(spec: CompressedAttention, d_model: Size, load: Load) -> Part:
    """Queries [batch, n_heads, seq, d_head] over keys [batch, 1, window tokens + entries, d_head], also the values.

    FLOPs of scores and values 2 * batch * n_heads * d_head * pairs each; of the grouped projection 2 * tokens * n_heads
    * d_head * out_rank. Cache: keys and values of the window, counted as two tensors though both hold the same numbers;
    the compressor's entries and what it needs to make the next one.
    """
    heads, d_head, tokens = spec.n_heads, spec.d_head, load.tokens
    pairs = load.twice_pairs(spec.window)
    if spec.compressor is not None:
        pairs = pairs + _twice_entries(spec.compressor, load)
    pairs = load.batch * heads * pairs
    out = spec.n_out_groups * spec.out_rank
    turned = tokens * d_head * (heads + 1)
    in_groups = Weight("o_a_proj.weight", (out, exact_div(heads * d_head, spec.n_out_groups)), "attention")
    body: list[Part | Op] = [
        linear("q_a_proj", tokens, d_model, spec.q_rank, "attention"),
        norm("q_a_norm", spec.norm, (spec.q_rank,), tokens),
        linear("q_b_proj", tokens, spec.q_rank, heads * d_head, "attention"),
        norm("q_norm", Norm(affine=False), (d_head,), tokens * heads),
        linear("kv_proj", tokens, d_model, d_head, "attention"),
        norm("kv_norm", spec.norm, (d_head,), tokens, feeds=True),
        elementwise("rope", "attention", "rope", turned, turned, from_chain=tokens * d_head),
    ]
    if spec.compressor is not None:
        body.append(_compressor(spec, spec.compressor, d_model, load))
    cached, new = load.cached(spec.window), load.seq
    if spec.compressor is not None:
        before, fresh = _whole(spec.compressor, load)
        cached, new = cached + before, new + fresh
    shape = Attend(load.batch, heads, load.seq, cached + new, d_head, d_head, window=spec.window)
    body += [
        scores(shape, pairs * d_head, cached, Cache(load.vectors * 2 * d_head, spec.window)).moving(
            cache_writes=2 * tokens * d_head
        ),
        softmax(shape, (Weight("sinks", (heads,), "attention"),)),
        values(shape, pairs * d_head, cached, again=True),
        Op(
            "o_a_proj",
            "linear",
            "attention",
            2 * tokens * heads * d_head * spec.out_rank,
            (in_groups,),
            rows=tokens,
            in_parts=True,
            function="matmul",
            shape=Matmul(tokens, spec.out_rank, quotient(heads * d_head, spec.n_out_groups), spec.n_out_groups),
            moves=lambda: Moves(tokens * heads * d_head, tokens * out),
        ),
        linear("o_b_proj", tokens, out, d_model, "attention"),
    ]
    return Part("attention", tuple(body))


def _whole(spec: Compressor, load: Load) -> tuple[Size, Size]:
    """Entries of one sequence that are complete before this pass, and those that it completes."""
    before = floor_div(load.context, spec.rate)
    return before, floor_div(load.context + load.seq, spec.rate) - before


def _twice_entries(spec: Compressor, load: Load) -> Size:
    """Twice the pairs of tokens and entries: all of them where everything is computed and hidden afterwards."""
    exact = load.scores == "causal-exact" and spec.indexer is not None
    return load.twice_entries(spec.rate, spec.indexer.top_k if exact and spec.indexer is not None else None)


def _compressor(spec: CompressedAttention, compressor: Compressor, d_model: Size, load: Load) -> Part:
    body: list[Part | Op] = [*_entries(compressor, spec.d_head, spec.norm, d_model, load)]
    if compressor.indexer is not None:
        body.append(_indexer(compressor, compressor.indexer, spec.q_rank, spec.norm, d_model, load))
    return Part("compressor", tuple(body))


def _entries(spec: Compressor, width: Size, normed: Norm, d_model: Size, load: Load) -> list[Op]:
    """Projections of each token to what becomes an entry of `width` and to its weight in it; the sum takes 0 FLOPs.

    Kept: the entries; both projections of tokens whose entry is not complete; and of the last complete one's tokens the
    projections that the next entry reads, where entries overlap. A gradient flows through both projections of all
    tokens, also of those whose entry is not complete, but not where no entry is.
    """
    each = 2 * width if spec.overlap else width
    _, new = _whole(spec, load)
    made = load.batch * new * width
    # Cached projections of tokens whose entry this pass may complete: at most an entry's less one, for each sequence.
    waiting = load.batch * (load.context - floor_div(load.context, spec.rate) * spec.rate) * 2 * each
    reached = minimum(new, 1)
    bias = Weight("position_bias", (spec.rate, each), "attention")
    entries = Cache(width, stride=spec.rate, rest=2 * each, fixed=2 * spec.rate * width if spec.overlap else 0)
    return [
        replace(linear("kv_proj", load.tokens, d_model, each, "attention"), reached=reached),
        replace(linear("gate_proj", load.tokens, d_model, each, "attention"), reached=reached),
        Op(
            "weigh",
            "elementwise",
            "attention",
            weights=(bias,),
            cache=entries,
            function="pool",
            moves=lambda: Moves(2 * load.tokens * each, made, cache_reads=waiting, cache_writes=made, to_chain=made),
        ),
        norm("kv_norm", normed, (width,), load.batch * new),
    ]


def _indexer(spec: Compressor, indexer: EntryIndexer, q_rank: Size, normed: Norm, d_model: Size, load: Load) -> Part:
    """Entries of its own, and a score of each of them for each token: 2 * n_heads * d_head FLOPs a pair."""
    heads, d_index = indexer.n_heads, indexer.d_head
    pairs = load.batch * heads * load.twice_entries(spec.rate, None)
    before, new = _whole(spec, load)
    chosen = load.tokens * (before + new)
    body = (
        *_entries(spec, d_index, normed, d_model, load),
        linear("q_b_proj", load.tokens, q_rank, heads * d_index, "attention"),
        product(
            "scores",
            "attention",
            pairs * d_index,
            Matmul(heads * load.seq, before + new, d_index, load.batch, weighed=False),
        ).moving(
            reads=(load.tokens * heads + load.batch * new) * d_index,
            cache_reads=load.batch * before * d_index,
        ),
        linear("weights_proj", load.tokens, d_model, heads, "attention"),
        elementwise("choose", "attention", "route", load.tokens * (heads + 1) * (before + new), chosen),
    )
    # Choosing passes no gradient, so nothing goes back through it.
    return Part("indexer", tuple(replace(op, live=False, backward=0) for op in body))
