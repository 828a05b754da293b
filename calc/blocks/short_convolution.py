"""The short causal convolution in front of a recurrence, a filter of its own for each channel."""

from __future__ import annotations

from calc.load import Load
from calc.op import Cache, Moves, Op, Weight
from calc.sizes import Size


def short_convolution(channels: Size, taps: Size, load: Load, *, bias: bool) -> Op:
    """x [batch, channels, seq] against a weight [channels, 1, taps]: 2 * taps FLOPs a channel and position.

    As eager PyTorch runs it: the input is padded with taps - 1 zeros on both sides and the tail is cut off, so that
    seq + taps - 1 positions are computed; a decoded token stands behind `taps` cached ones, which makes one position
    more than is used. Kernels made for it compute seq positions.
    Cache: the last `taps` inputs. Source: transformers 5.23, models/mamba/modeling_mamba.py, causal_conv1d_fn.
    """
    positions = load.seq + 1 if load.decode else load.seq + taps - 1
    weights = [Weight("conv.weight", (channels, 1, taps), "ssm")]
    if bias:
        weights.append(Weight("conv.bias", (channels,), "ssm"))
    flops = 2 * load.batch * positions * channels * taps
    moved, last = load.tokens * channels, load.batch * channels * taps
    return Op(
        "conv",
        "linear",
        "ssm",
        flops,
        tuple(weights),
        cache=Cache(fixed=channels * taps),
        function="conv1d",
        moves=lambda: Moves(moved, moved, cache_reads=last if load.decode else 0, cache_writes=last),
    )
