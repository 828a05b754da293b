"""A convolution whose weights each token makes, beside heads of attention (Jiang et al. 2020, arXiv:2008.02496)."""

from __future__ import annotations

from calc.sizes import Size, exact_div
from calc.trace.functions import Matmul
from calc.trace.primitives.product import product
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def span_convolution(t: Trace, kernel: int, heads: Size, x: Tensor, q: Tensor) -> Tensor:
    """x [tokens, d_model] and the queries q [tokens, heads * d_head] -> as q, what stands beside the heads' result.

    A span's keys, one kernel a channel and a matrix, times the query make `kernel` weights a head and token, softmaxed
    (section 3.2, equations 2 and 3); these weigh the projected tokens around it: 2 * tokens * heads * d_head * kernel
    FLOPs. Source: transformers 5.23, models/convbert/modeling_convbert.py, ConvBertSelfAttention.
    """
    d_model, tokens, width = x.width, x.rows, q.width
    keys = t.convolution("span_depthwise", x, d_model, (kernel,), tokens, groups=d_model, bias=False, of="attention")
    keys = t.convolution("span_pointwise", keys, width, (1,), tokens, of="attention")
    made = t.linear("span_weights", t.times("span_query", keys, q), heads * kernel, bias=True)
    weights = t.made(tokens * heads, kernel, made)
    t.op("span_softmax", "elementwise", "softmax", (made,), (weights,), keeps=_softmax)
    values = t.linear("span_values", x, width, bias=True)
    around = t.joined(values, rows=tokens * width, width=kernel)
    return product(
        t,
        "span_convolution",
        around,
        weights,
        tokens,
        width,
        Matmul(exact_div(width, heads), 1, kernel, tokens * heads, weighed=False),
        2 * tokens * width * kernel,
        keeps=lambda tape, read, made: _product(tape, read, made, tokens * width),
    )


def _product(tape: Tape, around: Storage, weights: Storage, elements: Size) -> Storage:
    with tape.region("attention", around, weights):
        return tape.product(around, weights, elements)


def _softmax(tape: Tape, x: Storage) -> Storage:
    """In the format of x, but where a GPU's autocast widens it."""
    return tape.reads_result(x, "fp32" if tape.settings.autocast_on_gpu else None)
