"""Attention whose numbers for distances pass a gate of each query's own (WavLM).

Source: Chen et al. 2022 (arXiv:2110.13900); transformers 5.23, models/wavlm/modeling_wavlm.py.
"""

from __future__ import annotations

from calc.blocks.surroundings import Surroundings
from calc.blocks.tokens_first import tokens_first
from calc.sizes import Size, is_exactly
from calc.spec import GatedBias
from calc.spec.load import Load
from calc.trace.functions import Matmul
from calc.trace.primitives.product import product
from calc.trace.shard import COLUMN, ROW
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace

NAME = "numbers of distances"
GATES = 8
"""Numbers of a head that the gate's matrix gives: four are summed up for each of the two sigmoids."""


def gated_bias(t: Trace, spec: GatedBias, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """Scores [batch * n_heads, seq, seq], to which gates [batch * n_heads, seq] times distances' numbers are added.

    FLOPs: 2 * batch * seq * n_heads * d_head * 8 for the gates, 2 * batch * n_heads * d_head * seq^2 for scores and as
    many for values. Tokens stand ahead of texts, so that each projection copies what it reads of several.
    """
    assert around.bias is not None
    width = spec.n_heads * spec.d_head
    gate = _gate(t, spec, x, load)
    q, k, v = (t.linear(f"{name}_proj", tokens_first(t, x, load), width, bias=True, shard=COLUMN) for name in "qkv")
    q = t.scaled("query_scale", q)
    y = _core(t, spec, (q, k, v, gate, around.bias), load)
    return t.linear("o_proj", y, x.width, bias=True, shard=ROW)


def bias_of_each(t: Trace, bias: Tensor, load: Load) -> Tensor:
    """Numbers of distances [n_heads * seq, keys] -> [batch * n_heads * seq, keys], laid down once for all layers."""
    each = t.made(load.batch * bias.rows, bias.width, bias)

    def keeps(tape: Tape, read: Storage) -> Storage:
        return Storage(each.elements, read.dtype, read.grad, "none", NAME)

    return t.silent("bias_of_each", (bias,), each, keeps, reads=True)


def _gate(t: Trace, spec: GatedBias, x: Tensor, load: Load) -> Tensor:
    """a * (b * scale - 1) + 2 of each head and token, a and b sigmoids: [batch * n_heads * seq, 1]."""
    heads = spec.n_heads
    each = x.view(x.rows * heads, spec.d_head)
    if not is_exactly(heads, 1) and not is_exactly(load.seq, 1):
        each = t.joined(each, rows=each.rows, width=each.width)
    read = t.linear("gate_proj", each, GATES, bias=True)
    scale = t.weight("gate_scale", heads)
    gate = t.made(read.rows, 1, read, weights=(scale,))

    def keeps(tape: Tape, made: Storage) -> Storage:
        """Both sigmoids lie side by side."""
        summed = tape.cast(made, "fp32") if tape.settings.autocast_on_gpu else made
        both = tape.reads_result(Storage(2 * gate.elements, summed.dtype, summed.grad, summed.split))
        a, b = both.part(gate.elements), both.part(gate.elements)
        factor = Storage(scale.elements, tape.settings.stream, scale.trainable, "none", parameter=True)
        return tape.like(tape.times(a, tape.like(tape.times(b, factor))))

    t.op("gate", "elementwise", "sigmoid", (read,), (gate,), weights=(scale,), keeps=keeps)
    return gate


def _core(t: Trace, spec: GatedBias, read: tuple[Tensor, Tensor, Tensor, Tensor, Tensor], load: Load) -> Tensor:
    """Scores, what is added to them, softmax and weighted values of (q, k, v, gate, bias), each an operation of its
    own."""
    q, k, v, gate, bias = read
    d_head, seq, rows = spec.d_head, load.seq, load.batch * spec.n_heads
    pairs: Size = rows * seq * seq
    shape, flops = Matmul(seq, seq, d_head, rows, weighed=False), 2 * pairs * d_head
    scores = product(t, "scores", q, k, rows * seq, seq, shape, flops)
    added = t.made(rows * seq, seq, bias, gate, split="tensor")
    t.op("gated_bias", "elementwise", "scale", (bias, gate), (added,), of="positional")
    weights = t.made(rows * seq, seq, scores, added, split="tensor")
    t.op("softmax", "elementwise", "softmax", (scores, added), (weights,))

    def keeps(tape: Tape, q: Storage, k: Storage, v: Storage, gate: Storage, bias: Storage) -> Storage:
        tape.written_out("attention with gated numbers of distances")
        with tape.region("attention", q, k, v, gate, bias):
            with tape.at("gated_bias"):
                added = tape.times(bias, gate)
            with tape.at("scores"):
                made = tape.product(q, k, pairs)
                if not tape.settings.autocast:
                    made = tape.like(made, added)
            with tape.at("softmax"):
                wide = tape.cast(made, "fp32") if tape.settings.autocast_on_gpu else made
                shares = tape.drop(tape.reads_result(Storage(pairs, wide.dtype, made.grad or added.grad, "tensor")))
            with tape.at("values"):
                return tape.like(tape.product(shares, v, q_elements))

    q_elements, shape = q.elements, Matmul(seq, d_head, seq, rows, weighed=False)
    return product(t, "values", weights, v, q.rows, q.width, shape, flops, keeps=keeps, operands=read)
