"""Residual streams that blocks read value by value, through gates of low rank.

Source: transformers 5.23, models/qwen4_exp/modeling_qwen4_exp.py, Qwen4ExpTextGatedResidual.
"""

from __future__ import annotations

from calc.sizes import Size
from calc.spec import Norm, StreamMixing
from calc.trace.primitives.stream_mixing import read_streams
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def gated_connection(
    t: Trace, name: str, streams: Tensor, n: Size, mixing: StreamMixing, rank: Size
) -> tuple[Tensor, Tensor]:
    """Streams [tokens, n * d_model] -> what the block reads [tokens, d_model], and how much of its result each stream
    takes [tokens, n]: 2 * tokens * n * d_model * (2 * rank + n) FLOPs."""
    with t.part(name, streams, of="other") as out:
        read, normed = _read(t, streams, n, mixing, rank)
        out += read, _share(t, t.linear("write_proj", normed, n))
    return out[0], out[1]


def gated_collapse(t: Trace, streams: Tensor, n: Size, mixing: StreamMixing, rank: Size) -> Tensor:
    """Streams [tokens, n * d_model] -> [tokens, d_model], behind the last layer, whose norm this is too."""
    with t.part("collapse", streams, of="other") as out:
        out.append(_read(t, streams, n, mixing, rank)[0])
    return out[0]


def _read(t: Trace, streams: Tensor, n: Size, mixing: StreamMixing, rank: Size) -> tuple[Tensor, Tensor]:
    """The mean of all streams, each value times its gate, and the normed streams, each with a weight of its own."""
    normed = t.norm("norm", Norm(unit_offset=True, eps=mixing.norm_eps), streams, heads=n)
    small = t.activation("activation", "silu", t.scaled("mean", t.linear("down_proj", normed, rank)))
    gates = t.activation("sigmoid", "sigmoid", t.linear("up_proj", small, streams.width))
    return read_streams(t, "read", "scale", normed, gates, n), normed


def _share(t: Trace, given: Tensor) -> Tensor:
    """A sigmoid of the mean, times the most that a share is."""
    y = t.made(given.rows, given.width, given)

    def keeps(tape: Tape, read: Storage) -> Storage:
        tape.written_out("a hyper-connection")
        return tape.like(tape.reads_result(tape.like(read)))

    t.op("share", "elementwise", "sigmoid", (given,), (y,), keeps=keeps)
    return y
