"""The recorder that blocks write their forward pass on, with every primitive as a method."""

from __future__ import annotations

from calc.trace.primitives.activation import activation, gated_activation, gated_heads, gated_output, glu, softcap
from calc.trace.primitives.arithmetic import (
    add,
    buffered,
    clip,
    column_scaled,
    concat,
    dropout,
    head_tempered,
    joined,
    opened,
    picked,
    placed,
    pooled,
    scaled,
    taken,
    tempered,
    times,
    weighed,
)
from calc.trace.primitives.attend import attend
from calc.trace.primitives.attend_added import relative_bias
from calc.trace.primitives.batch_norm import batch_norm, frozen_batch_norm
from calc.trace.primitives.convolution import convolution, max_pooled, neighbours, patch, upscaled
from calc.trace.primitives.gather import constant, gather, parameters
from calc.trace.primitives.linear import linear
from calc.trace.primitives.norm import norm, normalized
from calc.trace.primitives.rope import rope
from calc.trace.recorder import Recorder


class Trace(Recorder):
    """One forward pass being recorded."""

    __slots__ = ()

    activation = activation
    add = add
    attend = attend
    batch_norm = batch_norm
    buffered = buffered
    clip = clip
    column_scaled = column_scaled
    concat = concat
    constant = constant
    convolution = convolution
    dropout = dropout
    frozen_batch_norm = frozen_batch_norm
    gated_activation = gated_activation
    gated_heads = gated_heads
    gated_output = gated_output
    gather = gather
    glu = glu
    head_tempered = head_tempered
    joined = joined
    linear = linear
    max_pooled = max_pooled
    neighbours = neighbours
    norm = norm
    normalized = normalized
    opened = opened
    parameters = parameters
    patch = patch
    picked = picked
    placed = placed
    pooled = pooled
    relative_bias = relative_bias
    rope = rope
    scaled = scaled
    softcap = softcap
    taken = taken
    tempered = tempered
    times = times
    upscaled = upscaled
    weighed = weighed
