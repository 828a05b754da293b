"""The short causal convolution in front of a recurrence, a filter of its own for each channel."""

from __future__ import annotations

from calc.sizes import Size, exact_div, is_exactly
from calc.spec.load import Load
from calc.trace.functions import Recurrence
from calc.trace.op import Cache, Moves, Weight
from calc.trace.recorder import Recorder
from calc.trace.shard import Shard
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


def short_convolution(
    t: Recorder,
    name: str,
    x: Tensor,
    taps: Size,
    load: Load,
    *,
    bias: bool,
    activated: bool = True,
    stepwise: bool = False,
    shard: Shard | None = None,
    heads: Size = 1,
    groups: Size = 1,
    recurrence: Recurrence | None = None,
) -> Tensor:
    """x [batch * seq, channels] against a weight [channels, 1, taps], and SiLU of that: 2 * taps FLOPs a channel and
    position. activated: whether SiLU follows. stepwise: whether a decoded token is multiplied number by number, 0
    FLOPs, with the taps - 1 inputs before it, which alone are cached (RecurrentGemma). shard: what tensor-parallel
    ranks hold of the filters; heads: shares of its cache that they can hold, but for what x has grouped, of which there
    are as many as `groups`. recurrence: how engines call it, where they have a kernel for it.

    As eager PyTorch runs it: the input is padded with taps - 1 zeros on both sides and the tail is cut off, so that
    seq + taps - 1 positions are computed; a decoded token stands behind `taps` cached ones, which makes one position
    more than is used. Where it caches, transformers fills prompts of fewer tokens than taps up to taps first, which is
    not counted. Kernels made for it compute seq positions.
    Cache: the last `taps` inputs, unless stepwise. Source: transformers 5.23, models/mamba/modeling_mamba.py,
    causal_conv1d_fn.
    """
    channels = x.width
    positions = load.seq + 1 if load.decode else load.seq + taps - 1
    weights = [t.weight(f"{name}.weight", channels, 1, taps, shard=shard)]
    if bias:
        weights.append(t.weight(f"{name}.bias", channels, shard=shard))
    y = t.made(x.rows, channels, x, weights=tuple(weights), split="tensor")
    y.heads, y.grouped = x.heads, x.grouped
    steps = taps - 1 if stepwise else taps
    kept, grouped = channels * steps, 0 if is_exactly(x.grouped, 0) else exact_div(x.grouped, x.rows) * steps
    last = load.batch * kept
    t.op(
        name,
        "linear",
        "conv1d",
        (x,),
        (y,),
        weights=tuple(weights),
        flops=0 if stepwise and load.decode else 2 * load.batch * positions * channels * taps,
        cache=Cache(fixed=kept, heads=heads, grouped=grouped, groups=groups),
        moves=lambda: Moves(x.elements, y.elements, cache_reads=last if load.decode else 0, cache_writes=last),
        keeps=lambda tape, read: _saved(tape, read, weights[0], load, activated=activated),
        recurrence=recurrence,
    )
    return y


def _saved(tape: Tape, x: Storage, weight: Weight, load: Load, *, activated: bool) -> Storage:
    """It keeps what it reads, and under autocast the filters' cast; SiLU what comes out, the overhang of taps - 1
    tokens included, which is cut off as a view.

    A kernel made for it computes its result and SiLU's input again and keeps what it reads alone: causal-conv1d 1.6.1,
    causal_conv1d_interface.py.
    """
    s = tape.settings
    channels, _, taps = weight.shape
    grad = x.grad or weight.trainable
    if s.fused:
        if grad:
            tape.keep(x, "input")
        return Storage(x.elements, s.dtype, grad, "tensor", heads=x.heads, grouped=x.grouped)
    computed = load.seq + taps - 1
    grouped = x.grouped if is_exactly(x.grouped, 0) else exact_div(x.grouped * computed, load.seq)
    elements = load.batch * channels * computed
    overhanging = Storage(elements, s.dtype, grad, "tensor", heads=x.heads, grouped=grouped)
    out = overhanging.part(x.elements, grouped=x.grouped)
    if activated:
        out = Storage(x.elements, s.dtype, grad, "tensor", heads=x.heads, grouped=x.grouped)
    if not grad:
        return out
    tape.keep(tape.cast(x, s.dtype) if s.autocast else x, "input")
    if s.autocast:
        tape.keep(Storage(weight.elements, s.dtype, False, "none", weight=weight), "cast weight")
    if activated:
        with tape.region("activation", x):
            tape.keep(overhanging, "overhanging")
    return out
