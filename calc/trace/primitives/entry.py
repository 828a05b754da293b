"""One entry of several tokens: the sum of their projections, weighed value by value by a softmax."""

from __future__ import annotations

from calc.sizes import Size, floor_div, minimum
from calc.spec import Compressor
from calc.spec.load import Load
from calc.trace.op import Cache, Moves, Weight
from calc.trace.recorder import Recorder
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


def weighed_entries(
    t: Recorder, spec: Compressor, kv: Tensor, gate: Tensor, width: Size, new: Size, load: Load
) -> Tensor:
    """kv, gate [tokens, width], or where entries overlap twice that -> the `new` entries that are complete of every
    sequence, [batch * new, width].

    Cached: the entries; both projections of tokens whose entry is not complete; and of the last complete one's tokens
    the projections that the next entry reads, where entries overlap.
    """
    bias = t.weight("position_bias", spec.rate, kv.width)
    y = t.made(load.batch * new, width, kv, gate, weights=(bias,))
    # Cached projections of tokens whose entry this pass may complete: at most an entry's less one, for each sequence.
    waiting = load.batch * (load.context - floor_div(load.context, spec.rate) * spec.rate) * 2 * kv.width
    fixed = 2 * spec.rate * width if spec.overlap else 0
    t.op(
        "weigh",
        "elementwise",
        "pool",
        (kv, gate),
        (y,),
        weights=(bias,),
        cache=Cache(width, stride=spec.rate, rest=2 * kv.width, fixed=fixed),
        moves=lambda: Moves(kv.elements + gate.elements, y.elements, cache_reads=waiting, cache_writes=y.elements),
        keeps=lambda tape, *reads: _saved(tape, spec, y, new, bias, *reads),
    )
    return y


def _saved(tape: Tape, spec: Compressor, y: Tensor, new: Size, bias: Weight, kv: Storage, gate: Storage) -> Storage:
    """A softmax in fp32 over the tokens of an entry, and its product with what is weighed.

    Where entries overlap, each is made of twice as many tokens, laid out for it; else of a view of all projections.
    Errors: Refused where everything is fused.
    """
    tape.written_out("a compressed entry")
    tokens = spec.rate * (2 if spec.overlap else 1)
    elements = y.elements * tokens
    scores = Storage(elements, "fp32", gate.grad or bias.trainable)
    weights = tape.cast(tape.reads_result(scores), kv.dtype)
    read = elements if spec.overlap else kv.elements * minimum(new, 1)
    made = tape.times(weights, Storage(read, kv.dtype, kv.grad))
    return Storage(y.elements, "fp32" if tape.settings.autocast_on_gpu else kv.dtype, made.grad)
