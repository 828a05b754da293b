"""Attention of one picture's places whose heads share keys and values, as PyTorch runs it where no kernel of its takes
keys of fewer heads: products that find a copy for each head, in fp32.

Source: timm 1.0.31, layers/attention2d.py, MultiQueryAttention2d; pytorch 2.13, _scaled_dot_product_attention_math.
"""

from __future__ import annotations

from calc.sizes import Size, is_exactly
from calc.trace.functions import Matmul
from calc.trace.primitives.product import product
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def shared_attention(
    t: Trace, q: Tensor, k: Tensor, v: Tensor, n_heads: int, pictures: Size, places: tuple[Size, Size]
) -> Tensor:
    """q [pictures * n, n_heads * d], k and v [pictures * m, d] -> the shape of q: 4 * pictures * n_heads * n * m * d
    FLOPs. places: (n, m)."""
    (queries, keys), d, each = places, k.width, pictures * n_heads
    flops = 2 * each * queries * keys * d
    shape = Matmul(queries, keys, d, each, weighed=False)
    scores = product(t, "scores", q, k, each * queries, keys, shape, flops)
    weights = t.made(scores.rows, keys, scores)
    t.op("softmax", "elementwise", "softmax", (scores,), (weights,))

    def keeps(tape: Tape, q: Storage, k: Storage, v: Storage) -> Storage:
        tape.written_out("attention that shares keys")
        asked, dtype = Storage(q.elements, "fp32", q.grad, q.split), q.dtype
        # Those of one picture are read by every head as they lie.
        copies = 1 if is_exactly(pictures, 1) else n_heads
        wide = [Storage(copies * read.elements, "fp32", read.grad, read.split) for read in (k, v)]
        with tape.at("scores"):
            made = tape.product(asked, wide[0], scores.elements, casts=False)
        with tape.at("softmax"):
            shares = tape.reads_result(made)
        with tape.at("values"):
            return tape.cast(tape.product(shares, wide[1], asked.elements, "stream", casts=False), dtype)

    shape = Matmul(queries, d, keys, each, weighed=False)
    return product(t, "values", weights, v, q.rows, q.width, shape, flops, keeps=keeps, operands=(q, k, v))
