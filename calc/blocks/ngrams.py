"""Vectors of the last few tokens together, looked up by a hash and added to residual streams (Qwen4).

Source: transformers 5.23, models/qwen4_exp/modeling_qwen4_exp.py, Qwen4ExpTextPLELayer.
"""

from __future__ import annotations

from calc.sizes import Size, exact_div
from calc.spec import NGrams, Norm
from calc.spec.load import Load
from calc.trace.op import Cache, Moves
from calc.trace.primitives.stream_mixing import spread_values
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def ngrams(t: Trace, spec: NGrams, norm: Norm, streams: Tensor, n: Size, load: Load) -> Tensor:
    """Streams [tokens, n * d_model] plus what n-grams give each of them.

    FLOPs 2 * tokens * d_ngram * (n + 1) * d_model, and 2 * tokens * n * d_model * d_conv of the convolution, which
    computes no more places than there are tokens. norm: of keys, streams and values, of each stream for itself, with a
    weight of its own. Cache: what the convolution reads of the last (d_conv - 1) * spec.n tokens; the numbers of the
    tokens that n-grams read are left out.
    """
    width = exact_div(streams.width, n)
    heads = len(spec.heads)
    with t.part("ngrams", streams, of="embedding") as out:
        table = t.weight("table.weight", spec.rows, exact_div(spec.d_ngram, heads))
        vectors = t.gather("table", (table,), load.tokens, spec.d_ngram, indices=heads * load.tokens)
        k = t.norm("k_norm", norm, t.linear("k_proj", vectors, streams.width, of="other"), heads=n)
        v = t.linear("v_proj", vectors, width, of="other")
        q = t.norm("q_norm", norm, streams, heads=n)
        gated = spread_values(t, "gate", q, k, v, n)
        normed = t.norm("v_norm", norm, gated, heads=n)
        out.append(t.add("join", streams, t.add("sum", gated, _convolved(t, spec, normed, load))))
    return out[0]


def _convolved(t: Trace, spec: NGrams, x: Tensor, load: Load) -> Tensor:
    """A filter of its own for each channel of x, over tokens spec.n apart, and SiLU of that."""
    weight, before = t.weight("conv.weight", x.width, 1, spec.d_conv, of="other"), (spec.d_conv - 1) * spec.n
    y = t.made(x.rows, x.width, x, weights=(weight,))
    kept = before * x.width
    last = load.batch * kept

    def keeps(tape: Tape, read: Storage) -> Storage:
        tape.written_out("a convolution over n-grams")
        s = tape.settings
        grad = read.grad or weight.trainable
        if grad:
            tape.keep(Storage(read.elements + last, s.dtype if s.autocast else read.dtype, read.grad), "padded input")
            if s.autocast:
                tape.keep(Storage(weight.elements, s.dtype, False, "none", weight=weight), "cast weight")
        return tape.reads_input(Storage(y.elements, s.dtype if s.autocast else read.dtype, grad))

    t.op(
        "conv",
        "linear",
        "conv1d",
        (x,),
        (y,),
        weights=(weight,),
        flops=2 * load.tokens * x.width * spec.d_conv,
        cache=Cache(fixed=kept),
        moves=lambda: Moves(x.elements, y.elements, cache_reads=last if load.decode else 0, cache_writes=last),
        keeps=keeps,
    )
    return y
