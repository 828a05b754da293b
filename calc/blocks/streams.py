"""Hyper-connections: several residual streams that each block reads from and writes to by learned mixtures.

Source: manifold-constrained hyper-connections (Xie et al. 2026); transformers 5.23, DeepseekV4HyperConnection.
"""

from __future__ import annotations

from calc.blocks.gated_streams import gated_collapse, gated_connection
from calc.sizes import Size, exact_div
from calc.spec import Norm, StreamMixing
from calc.trace.functions import Matmul
from calc.trace.primitives.norm import saved_by_norm
from calc.trace.primitives.product import product
from calc.trace.primitives.stream_mixing import (
    doubly_stochastic,
    over_root_mean_square,
    read_streams,
    saved_by_mix,
    stream_gates,
    write_streams,
)
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace

Connected = tuple[Tensor, Tensor, Tensor | None]


def spread(t: Trace, x: Tensor, n: Size) -> Tensor:
    """x [tokens, d_model] -> n copies of it side by side, [tokens, n * d_model]."""
    return t.joined(x, rows=x.rows, width=n * x.width)


def connection(t: Trace, name: str, streams: Tensor, n: Size, mixing: StreamMixing) -> Connected:
    """Streams [tokens, n * d_model] -> what the block reads [tokens, d_model], how much of its result each stream takes
    [tokens, n], and the matrix that mixes the streams [tokens, n * n], or None where they are independent.

    All streams of a token, normed side by side, give n weights to read with, as many to write with, and the matrix:
    2 * tokens * n * d_model * (2 + n) * n FLOPs, without a matrix 2 * n in place of (2 + n) * n. Reading is a sum of
    scaled streams, 0 FLOPs. Where gates have a rank: as `gated_connection` says.
    """
    if mixing.rank is not None:
        return *gated_connection(t, name, streams, n, mixing, mixing.rank), None
    with t.part(name, streams, of="other") as out:
        weights, mixed = _weights(t, streams, (2 if mixing.independent else 2 + n) * n, mixing), None
        if mixing.independent:
            read, written = stream_gates(t, weights, n)
        else:
            read, written, mixed = doubly_stochastic(t, weights, n, mixing.rounds)
        out += read_streams(t, "read", "scale", streams, read, n), written, *(() if mixed is None else (mixed,))
    return out[0], written, mixed


def mixture(t: Trace, name: str, streams: Tensor, y: Tensor, written: Tensor, mixed: Tensor | None, n: Size) -> Tensor:
    """The mixed streams, each with its share of y, which the block gave: 2 * tokens * n^2 * d_model FLOPs to mix;
    writing takes 0. mixed: None where streams are as they were."""
    with t.part(name, streams, y, of="other") as out:
        if mixed is None:
            out.append(write_streams(t, streams, y, written, "scale"))
            return out[0]
        shape = Matmul(n, exact_div(streams.width, n), n, streams.rows, weighed=False)
        flops = 2 * streams.rows * n * streams.width
        whole = product(
            t, "mix", mixed, streams, streams.rows, streams.width, shape, flops, split="stream", keeps=saved_by_mix
        )
        out.append(write_streams(t, whole, y, written))
    return out[0]


def collapse(t: Trace, streams: Tensor, n: Size, mixing: StreamMixing) -> Tensor:
    """Streams [tokens, n * d_model] -> [tokens, d_model], behind the last layer."""
    if mixing.rank is not None:
        return gated_collapse(t, streams, n, mixing, mixing.rank)
    with t.part("collapse", streams, of="other") as out:
        if mixing.mean:
            each = streams.view(streams.rows * n, exact_div(streams.width, n))
            out.append(t.pooled("mean", each, streams.rows, "mean"))
            return out[0]
        weights = _weights(t, streams, n, mixing)
        own = t.weight("base", n), t.weight("scale", 1)
        out.append(read_streams(t, "sum", "other", streams, weights, n, own))
    return out[0]


def _weights(t: Trace, streams: Tensor, width: Size, mixing: StreamMixing) -> Tensor:
    """What the streams of a token, normed side by side, give: [tokens, width]."""
    if mixing.independent:
        return over_root_mean_square(t, t.linear("weights", streams, width), streams)
    return t.linear("weights", _normed(t, streams, mixing), width)


def _normed(t: Trace, streams: Tensor, mixing: StreamMixing) -> Tensor:
    """All streams of a token through one norm without weights, for which no kernel is counted."""
    plain = Norm(affine=False, eps=mixing.norm_eps)
    normed = t.made(streams.rows, streams.width, streams)
    return t.silent("norm", (streams,), normed, lambda tape, read: saved_by_norm(tape, plain, read, streams.rows))
