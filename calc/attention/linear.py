"""What linear attention costs: a state in place of the square, causal by chunks."""

from __future__ import annotations

from calc.attention.cost import Cost
from calc.attention.shape import AttentionShape
from calc.sizes import Size, minimum


def linear(shape: AttentionShape, chunk: int = 64) -> Cost:
    """Forward, with features as wide as heads (Katharopoulos et al. 2020, arXiv:2006.16236, equations 7 to 10).

    Each key head has a state of d_head x d_value and a sum of d_head. Causal: the keys of one chunk of queries meet
    them as a square, those before through the state. Bytes: q, k, v and the output once, the state written and read
    once a chunk, in the sums' format.
    """
    d, dv, wide = shape.d_head, shape.d_value, shape.wide
    rows = shape.batch * shape.heads * shape.seq
    columns = shape.batch * shape.kv_heads * shape.keys
    states = shape.batch * shape.kv_heads * (d * dv + d)
    seq: Size = shape.seq
    pairs, chunks = 0, 1
    if shape.causal:
        chunks = -(-seq // chunk)
        last = seq - (chunks - 1) * chunk
        pairs = shape.batch * shape.heads * ((chunks - 1) * chunk * chunk + last * last)
    # Into the state, out of it with its normaliser, and within chunks.
    flops = 2 * columns * d * dv + 2 * rows * d * (dv + 1) + 2 * pairs * (d + dv)
    return Cost(
        flops=flops,
        exponentials=rows * d + columns * d,
        read=shape.item * (rows * d + columns * (d + dv)) + wide * chunks * states,
        written=shape.item * rows * dv + wide * chunks * states,
        sram=wide * (d * dv + d + minimum(chunk, seq) * (2 * d + 2 * dv)),
        peak=wide * states,
    )
