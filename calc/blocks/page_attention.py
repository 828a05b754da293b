"""Attention on a page: distances along the text, and between boxes, are added to the scores (LayoutLMv3).

Source: Huang et al. 2022 (arXiv:2204.08387); transformers 5.23, models/layoutlmv3/modeling_layoutlmv3.py.
"""

from __future__ import annotations

from calc.blocks.surroundings import Surroundings
from calc.sizes import Size
from calc.spec import PageAttention
from calc.spec.load import Load
from calc.trace.functions import Matmul
from calc.trace.op import Moves
from calc.trace.primitives.product import product
from calc.trace.shard import COLUMN, ROW
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def page_attention(t: Trace, spec: PageAttention, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """Scores [batch * n_heads, seq, seq] of scaled queries, and distances' numbers.

    FLOPs: 2 * batch * n_heads * d_head * seq^2 for scores and as many for values.
    """
    width = spec.n_heads * spec.d_head
    q, k, v = (t.linear(f"{name}_proj", x, width, bias=True, shard=COLUMN) for name in "qkv")
    y = _core(t, spec, t.scaled("query_scale", q), k, v, load, around.bias)
    return t.linear("o_proj", y, x.width, bias=True, shard=ROW)


def page_bias(t: Trace, spec: PageAttention, load: Load) -> Tensor | None:
    """Numbers of distances [batch * n_heads * seq, seq], looked up once for all layers. The tables are held like
    parameters, and no gradient reaches them."""
    if spec.buckets is None:
        return None
    weights = (t.weight("relative_bias.weight", spec.n_heads, spec.buckets.n_buckets, of="positional"),)
    if spec.box_buckets is not None:
        shape = (spec.n_heads, spec.box_buckets.n_buckets)
        weights += tuple(t.weight(f"{name}_bias.weight", *shape, of="positional") for name in ("across", "down"))
    found = Tensor(load.batch * spec.n_heads * load.seq, load.seq, False, "none")
    t.op(
        "page_bias",
        "gather",
        "gather",
        (),
        (found,),
        weights=weights,
        of="positional",
        live=False,
        moves=lambda: Moves(0, found.elements),
        keeps=lambda tape: Storage(found.elements, tape.settings.stream, False, "none"),
    )
    return found


def _core(t: Trace, spec: PageAttention, q: Tensor, k: Tensor, v: Tensor, load: Load, bias: Tensor | None) -> Tensor:
    """Scores, what is added to them, softmax and weighted values, each an operation of its own."""
    d_head, seq, rows = spec.d_head, load.seq, load.batch * spec.n_heads
    pairs: Size = rows * seq * seq
    shape, flops = Matmul(seq, seq, d_head, rows, weighed=False), 2 * pairs * d_head
    scores = product(t, "scores", q, k, rows * seq, seq, shape, flops)
    weights = t.made(rows * seq, seq, scores, split="tensor")
    t.op("softmax", "elementwise", "softmax", (scores,) if bias is None else (scores, bias), (weights,))

    def keeps(tape: Tape, q: Storage, k: Storage, v: Storage) -> Storage:
        """Scores scaled down are kept, with the largest of each row, which is looked for among them."""
        tape.written_out("attention on pages")
        with tape.region("attention", q, k, v):
            with tape.at("scores"):
                made = tape.like(tape.product(q, k, pairs))
            with tape.at("softmax"):
                if made.grad:
                    tape.keep(made, "scores scaled down")
                    tape.keep(Storage(rows * seq, made.dtype, False, "tensor"), "largest scores")
                wide = tape.cast(made, "fp32") if tape.settings.autocast_on_gpu else made
                shares = tape.drop(tape.reads_result(Storage(pairs, wide.dtype, made.grad, "tensor")))
            with tape.at("values"):
                return tape.like(tape.product(shares, v, q_elements))

    q_elements, shape = q.elements, Matmul(seq, d_head, seq, rows, weighed=False)
    return product(t, "values", weights, v, q.rows, q.width, shape, flops, keeps=keeps, operands=(q, k, v))
