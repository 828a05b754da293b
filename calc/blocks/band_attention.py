"""Attention within a band around each token, in overlapping chunks (Longformer, LED).

Source: Beltagy et al. 2020 (arXiv:2004.05150), section 3.2; transformers 5.23, models/led/modeling_led.py.
"""

from __future__ import annotations

from calc.blocks.surroundings import Surroundings
from calc.blocks.tokens_first import tokens_first
from calc.sizes import Size, exact_div
from calc.spec import BandAttention
from calc.spec.load import Load
from calc.trace.functions import Matmul
from calc.trace.primitives.product import product
from calc.trace.shard import COLUMN, ROW
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def band_attention(t: Trace, spec: BandAttention, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """Scores of chunks [batch * chunks, n_heads, 2 * reach, 2 * reach], of which those in the band are weighed, and
    values of blocks of reach tokens and both beside them. Tokens stand ahead of texts, so that each projection copies
    what it reads of several texts; no kernel is counted for it.

    FLOPs: 2 * batch * n_heads * d_head * chunks * (2 * reach)^2 for scores, where seq = (chunks + 1) * reach;
    6 * batch * n_heads * d_head * seq * reach for values.
    """
    width = spec.n_heads * spec.d_head
    q, k, v = (t.linear(f"{name}_proj", tokens_first(t, x, load), width, bias=True, shard=COLUMN) for name in "qkv")
    _unread(t, width, x.width)
    q = t.scaled("query_scale", q)
    y = _core(t, spec, q, k, v, load)
    return t.linear("o_proj", y, x.width, bias=True, shard=ROW)


def _unread(t: Trace, width: Size, d_model: Size) -> None:
    """The weights of the projections that no token needs."""
    for name in ("q_global", "k_global", "v_global"):
        weights = (t.weight(f"{name}.weight", width, d_model), t.weight(f"{name}.bias", width))
        t.parameters(name, weights, 0, d_model)


def _chunks(spec: BandAttention, load: Load) -> tuple[Size, Size]:
    """Chunks of all sequences, and blocks of half a chunk."""
    blocks = exact_div(load.seq, spec.reach)
    return load.batch * (blocks - 1), load.batch * blocks


def _core(t: Trace, spec: BandAttention, q: Tensor, k: Tensor, v: Tensor, load: Load) -> Tensor:
    """Scores, softmax in fp32, weighted values, each an operation of its own."""
    heads, d_head, reach = spec.n_heads, spec.d_head, spec.reach
    (chunks, blocks), side = _chunks(spec, load), 2 * reach
    shape = Matmul(side, side, d_head, heads * chunks, weighed=False)
    flops = 2 * heads * chunks * side * side * d_head
    scores = product(t, "scores", q, k, heads * chunks * side, side, shape, flops)
    weights = t.made(heads * blocks * reach, 2 * reach + 1, scores, split="tensor")
    t.op("softmax", "elementwise", "softmax", (scores,), (weights,))

    def keeps(tape: Tape, q: Storage, k: Storage, v: Storage) -> Storage:
        with tape.region("attention", q, k, v):
            q, k = (Storage(chunks * side * heads * d_head, x.dtype, x.grad, "tensor") for x in (q, k))
            with tape.at("scores"):
                made = tape.product(q, k, heads * chunks * side * side)
            with tape.at("softmax"):
                if made.grad:
                    # Where the first and the last tokens of a text have none beside them.
                    ends = Storage(2 * load.batch * heads * reach * (reach + 1), "bool", False, "tensor")
                    tape.keep(ends, "mask")
                band = Storage(weights.elements, made.dtype, made.grad, "tensor")
                shares = tape.drop(tape.cast(tape.reads_result(band, "fp32"), v.dtype))
            # In rows of 3 * reach, each begun one place later than the one before it, in memory of its own.
            shares = Storage(heads * blocks * reach * (3 * reach + 2), shares.dtype, shares.grad, "tensor")
            v = Storage(blocks * 3 * reach * heads * d_head, v.dtype, v.grad, "tensor")
            with tape.at("values"):
                y = tape.product(shares, v, q_rows * heads * d_head)
            return tape.like(y)

    q_rows = load.tokens
    shape = Matmul(reach, d_head, 3 * reach, heads * blocks, weighed=False)
    flops = 2 * heads * blocks * reach * 3 * reach * d_head
    return product(t, "values", weights, v, q_rows, heads * d_head, shape, flops, keeps=keeps, operands=(q, k, v))
