"""Alternating updates of several residual streams, which lie side by side (Gemma 3n).

Source: Baykal et al. 2023 (arXiv:2301.13310); transformers 5.23, models/gemma3n/modeling_gemma3n.py.
"""

from __future__ import annotations

from calc.blocks.again import again
from calc.sizes import Size, exact_div
from calc.spec import AltUp, Norm
from calc.trace.functions import Matmul
from calc.trace.primitives.grouped_linear import grouped_linear
from calc.trace.primitives.magnitude import matched
from calc.trace.primitives.product import product
from calc.trace.primitives.stream_mixing import saved_by_mix, write_streams
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def into_streams(t: Trace, spec: AltUp, x: Tensor) -> Tensor:
    """x [tokens, d_model] and its projections, as large as it, side by side: [tokens, n * d_model]."""
    others = spec.n - 1
    with t.part("altup_in", x, of="other") as out:
        made = t.linear("project", x, others * x.width, inside=False)
        made = matched(t, "match", made, x, others)
        out.append(t.joined(x, made, rows=x.rows, width=spec.n * x.width))
    return out[0]


def out_of_streams(t: Trace, spec: AltUp, streams: Tensor) -> Tensor:
    """The mean of the first stream and of the others' projections, as large as it: [tokens, d_model]."""
    others, width = spec.n - 1, exact_div(streams.width, spec.n)
    with t.part("altup_out", streams, of="other") as out:
        first = streams.columns(width)
        made = grouped_linear(t, "project", streams.columns(others * width), others, width)
        made = matched(t, "match", made, first, others)
        y = t.made(streams.rows, width, streams, made)
        t.op("mean", "elementwise", "pool", (first, made), (y,), keeps=lambda tape, *reads: tape.like(*reads))
        out.append(y)
    return out[0]


def predict(t: Trace, spec: AltUp, streams: Tensor, norm: Norm) -> Tensor:
    """Streams [tokens, n * d_model] plus a mixture of them, whose n * n weights come from the active one:
    2 * tokens * n * (d_model + n * n + n * d_model) FLOPs."""
    n, width = spec.n, exact_div(streams.width, spec.n)
    with t.part("altup", streams, of="other") as out:
        weights = t.linear("predict", _modes(t, streams.columns(width), n, norm), n * n, inside=False)
        shape = Matmul(n, width, n, streams.rows, weighed=False)
        flops = 2 * streams.rows * n * streams.width
        mixed = product(
            t, "mix", weights, streams, streams.rows, streams.width, shape, flops, split="stream", keeps=saved_by_mix
        )
        out.append(t.add("mix_add", mixed, streams))
    return out[0]


def correct(t: Trace, spec: AltUp, predicted: Tensor, y: Tensor, norm: Norm) -> Tensor:
    """Predicted streams, each plus a share of what the blocks have made of the active one more than was predicted.

    The shares come out of y by the same router as in `predict`: 2 * tokens * n * (d_model + n) FLOPs.
    """
    n, before = spec.n, predicted.columns(exact_div(predicted.width, spec.n))
    with t.part("altup_correction", predicted, y, of="other") as out:
        modes = again(t, lambda: _modes(t, y, n, norm))
        shares = t.scaled("plus_one", t.linear("correct", modes, n, inside=False))
        gained = t.add("gained", y, before)
        out.append(write_streams(t, predicted, gained, shares))
    return out[0]


def _modes(t: Trace, x: Tensor, n: Size, norm: Norm) -> Tensor:
    """tanh(router(norm(x) / d_model)), in fp32: [tokens, n]."""
    read = t.scaled("router_scale", t.norm("router_norm", norm, x))
    made = t.linear("router", read, n, inside=False)
    y = t.made(made.rows, n, made)

    def keeps(tape: Tape, given: Storage, x: Storage) -> Storage:
        return tape.cast(tape.reads_result(tape.cast(given, "fp32")), x.dtype)

    t.op("tanh", "elementwise", "tanh", (made,), (y,), keeps=keeps, operands=(made, x))
    return y
