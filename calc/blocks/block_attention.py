"""Attention within blocks of a sequence, and over sums of its tokens (LongT5).

Source: Guo et al. 2022 (arXiv:2112.07916), section 3; transformers 5.23, models/longt5/modeling_longt5.py.
"""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.attention import square_of
from calc.blocks.surroundings import Surroundings
from calc.sizes import Size, ceil_div, floor_div
from calc.spec import BlockAttention
from calc.spec.load import Load
from calc.trace.functions import Attend, Matmul
from calc.trace.primitives.attend_live import Scoring
from calc.trace.primitives.gather import constant
from calc.trace.primitives.product import product
from calc.trace.shard import COLUMN, ROW
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def block_attention(t: Trace, spec: BlockAttention, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """Queries [batch, blocks, n_heads, block, d_head] over keys and values [batch, blocks, n_heads, 3 * block + sums,
    d_head]: 2 * batch * n_heads * d_head * blocks * block * (3 * block + sums) FLOPs for scores and for values."""
    heads, width = spec.n_heads, spec.n_heads * spec.d_head
    read, sums = x, _sums(spec, load)
    if spec.summary is not None:
        made = _summaries(t, spec, x, sums, load)
        read = t.joined(x, made, rows=x.rows + made.rows, width=x.width)
    q = t.linear("q_proj", x, width, shard=COLUMN)
    k, v = (t.linear(f"{name}_proj", read, width, shard=COLUMN) for name in "kv")
    each = _in_blocks(spec, load)
    keys = 3 * spec.block + sums
    q = t.joined(q, rows=each.tokens, width=width)
    k, v = (t.joined(one, rows=each.batch * keys, width=width) for one in (k, v))
    y = t.attend(
        q,
        k,
        v,
        Attend(each.batch * heads, 1, spec.block, keys, spec.d_head, spec.d_head, causal=False),
        square_of(each, heads, heads, keys, spec.d_head, spec.d_head),
        2 * each.tokens * heads * keys,
        Scoring(buckets=spec.buckets, bias=around.bias, apart=True),
    )
    return t.linear("o_proj", t.joined(y, rows=load.tokens, width=width), x.width, shard=ROW)


def block_bias(t: Trace, spec: BlockAttention, load: Load) -> Tensor:
    """What all layers add to the scores of one sequence: [blocks * n_heads * block, 3 * block + sums]."""
    heads, sums = spec.n_heads, _sums(spec, load)
    found = [t.relative_bias(spec.buckets, heads, spec.block, 3 * spec.block)]
    if spec.summary is not None:
        found.append(t.relative_bias(spec.buckets, heads, load.seq, sums, name="summary_bias"))
    blocks = ceil_div(load.seq, spec.block)
    return t.joined(*found, rows=blocks * heads * spec.block, width=3 * spec.block + sums)


def _in_blocks(spec: BlockAttention, load: Load) -> Load:
    """Each block as a sequence of its own."""
    return replace(load, batch=load.batch * ceil_div(load.seq, spec.block), seq=spec.block)


def _sums(spec: BlockAttention, load: Load) -> Size:
    """How many sums a sequence has."""
    return 0 if spec.summary is None else floor_div(load.seq, spec.summary)


def _summaries(t: Trace, spec: BlockAttention, x: Tensor, sums: Size, load: Load) -> Tensor:
    """Sums of tokens, [batch * sums, d_model], normed: a product with a matrix of zeros and ones, 2 * tokens * sums *
    d_model FLOPs."""
    where = constant(t, load.batch * sums, load.seq)

    def keeps(tape: Tape, members: Storage, read: Storage) -> Storage:
        with tape.region("attention", read):
            return tape.product(members, read, load.batch * sums * x.width, "stream")

    shape = Matmul(sums, x.width, load.seq, load.batch, weighed=False)
    flops = 2 * load.tokens * sums * x.width
    made = product(t, "sums", where, x, load.batch * sums, x.width, shape, flops, keeps=keeps)
    made.split = "stream"
    return t.norm("sum_norm", spec.norm, made)
