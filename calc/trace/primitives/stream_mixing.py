"""Weights of residual streams: to read them, to write to them and to mix them.

Source: manifold-constrained hyper-connections (Xie et al. 2026); of streams that do not mix (Hy4, iHC)
transformers 5.23, models/hy_v4/modeling_hy_v4.py, HYV4HyperConnection.
"""

from __future__ import annotations

from calc.sizes import Size, exact_div
from calc.trace.functions import Function
from calc.trace.op import Weight
from calc.trace.primitives.arithmetic import weighed_by
from calc.trace.recorder import Recorder
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


def doubly_stochastic(t: Recorder, weights: Tensor, n: Size, rounds: int) -> tuple[Tensor, Tensor, Tensor]:
    """What a product gives for n streams, [tokens, (2 + n) * n] -> weights to read with and to write with, [tokens, n]
    each, through sigmoids, and [tokens, n * n] to mix with, whose columns, and between that rows, are divided by their
    sums `rounds` times (Sinkhorn & Knopp 1967). What of it is kept is refused where everything is fused."""
    own = t.weight("base", weights.width), t.weight("scale", 3)
    read, written, mixed = made = tuple(t.made(weights.rows, width, weights, weights=own) for width in (n, n, n * n))

    def keeps(tape: Tape, given: Storage) -> list[Storage]:
        tape.written_out("a hyper-connection")
        given = tape.cast(given, "fp32")
        to_read, to_write, matrix = (tape.like(tape.reads_result(_scaled(tape, given, y, own))) for y in made)
        for _ in range(2 * rounds - 1):
            matrix = tape.times(matrix, Storage(weights.rows * n, "fp32", matrix.grad))
        return [to_read, *(tape.cast(each, tape.settings.stream) for each in (to_write, matrix))]

    t.op("doubly_stochastic", "elementwise", "other", (weights,), made, weights=own, keeps=keeps)
    return read, written, mixed


def over_root_mean_square(t: Recorder, product: Tensor, streams: Tensor) -> Tensor:
    """A product with streams over their root mean square: what normed streams would give, which are then never made.

    Shapes: product [tokens, width], streams [tokens, n * d_model] -> [tokens, width]. No kernel is counted.
    Source: HYV4HyperConnection, as above.
    """
    y = t.made(product.rows, product.width, product, streams)

    def keeps(tape: Tape, given: Storage, every: Storage) -> Storage:
        squares = tape.reads_input(tape.cast(every, "fp32"))
        inverse = tape.reads_result(Storage(product.rows, "fp32", squares.grad))
        return tape.times(tape.cast(given, "fp32"), inverse)

    return t.silent("norm", (product, streams), y, keeps, reads=True)


def stream_gates(t: Recorder, weights: Tensor, n: Size) -> tuple[Tensor, Tensor]:
    """What a product gives for n streams, [tokens, 2 * n] -> weights to read with and to write with, [tokens, n] each,
    through sigmoids. What of it is kept is refused where everything is fused. Source: HYV4HyperConnection, as above."""
    own = t.weight("base", weights.width), t.weight("scale", 2)
    read, written = made = tuple(t.made(weights.rows, n, weights, weights=own) for _ in range(2))

    def keeps(tape: Tape, given: Storage) -> list[Storage]:
        tape.written_out("a hyper-connection")
        given = tape.cast(given, "fp32")
        to_read, to_write = (tape.like(tape.reads_result(_scaled(tape, given, y, own))) for y in made)
        return [to_read, tape.cast(to_write, tape.settings.stream)]

    t.op("gates", "elementwise", "other", (weights,), made, weights=own, keeps=keeps)
    return read, written


def read_streams(
    t: Recorder, name: str, function: Function, streams: Tensor, read: Tensor, n: Size, own: tuple[Weight, ...] = ()
) -> Tensor:
    """The sum of n streams side by side, each times a number of its own: [tokens, d_model].

    own: what scales and shifts those numbers ahead of a sigmoid, where that has not been done.
    """
    y = t.made(streams.rows, exact_div(streams.width, n), streams, read, weights=own)

    def keeps(tape: Tape, every: Storage, numbers: Storage) -> Storage:
        if own:
            scaled = _scaled(tape, tape.cast(numbers, "fp32"), read, own)
            numbers = tape.like(tape.reads_result(scaled))
        made = tape.times(every, numbers)
        return Storage(y.elements, every.dtype, made.grad)

    t.op(name, "elementwise", function, (streams, read), (y,), weights=own, keeps=keeps)
    return y


def write_streams(t: Recorder, mixed: Tensor, y: Tensor, written: Tensor, function: Function = "add") -> Tensor:
    """Mixed streams [tokens, n * d_model], to each of which is added its share of y [tokens, d_model].

    function: `scale` where nothing behind y is kept but by this, so that y is computed again for it.
    """
    made = t.made(mixed.rows, mixed.width, mixed, y, written)

    def keeps(tape: Tape, streams: Storage, given: Storage, shares: Storage) -> Storage:
        return tape.like(streams, tape.times(given, shares))

    t.op("join", "elementwise", function, (mixed, y, written), (made,), keeps=keeps)
    return made


def spread_values(t: Recorder, name: str, q: Tensor, k: Tensor, v: Tensor, n: Size) -> Tensor:
    """v [tokens, d_model] for each of n streams, times the sigmoid of the root of the size of what q and k [tokens,
    n * d_model] make of that stream, with its sign: [tokens, n * d_model]. What of it is kept is refused where
    everything is fused. Source: transformers 5.23, Qwen4ExpTextPLELayer."""
    y = t.made(q.rows, q.width, q, k, v)

    def keeps(tape: Tape, queries: Storage, keys: Storage, values: Storage) -> Storage:
        tape.written_out("gates of n-grams")
        whole = tape.times(keys, queries)
        wide = "fp32" if tape.settings.autocast_on_gpu else whole.dtype
        score = tape.reads_input(Storage(q.rows * n, wide, whole.grad))
        root = tape.reads_result(tape.reads_input(score))
        opened = tape.reads_result(tape.times(root, tape.like(score)))
        made = tape.times(values, opened)
        return Storage(y.elements, made.dtype, made.grad)

    t.op(name, "elementwise", "sigmoid", (q, k, v), (y,), keeps=keeps)
    return y


def saved_by_mix(tape: Tape, mixed: Storage, streams: Storage) -> Storage:
    """A product for every token, which is computed again where attention is."""
    with tape.region("attention", mixed, streams):
        return tape.product(mixed, streams, streams.elements, "stream")


def _scaled(tape: Tape, given: Storage, y: Tensor, own: tuple[Weight, ...]) -> Storage:
    """A part of what a product gives, times a learned number, plus others."""
    base, scale = own
    made = weighed_by(tape, given, scale.trainable)
    return Storage(y.elements, "fp32", made.grad or base.trainable)
