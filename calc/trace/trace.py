"""The recorder that blocks write their forward pass on, with every primitive as a method."""

from __future__ import annotations

from calc.trace.primitives.activation import activation, gated_activation, gated_output, softcap
from calc.trace.primitives.arithmetic import (
    add,
    buffered,
    clip,
    dropout,
    joined,
    placed,
    pooled,
    scaled,
    tempered,
    times,
    weighed,
)
from calc.trace.primitives.attend import attend, relative_bias
from calc.trace.primitives.gather import constant, gather, parameters
from calc.trace.primitives.linear import linear
from calc.trace.primitives.norm import norm
from calc.trace.primitives.rope import rope
from calc.trace.recorder import Recorder


class Trace(Recorder):
    """One forward pass being recorded."""

    __slots__ = ()

    activation = activation
    add = add
    attend = attend
    buffered = buffered
    clip = clip
    constant = constant
    dropout = dropout
    gated_activation = gated_activation
    gated_output = gated_output
    gather = gather
    joined = joined
    linear = linear
    norm = norm
    parameters = parameters
    placed = placed
    pooled = pooled
    relative_bias = relative_bias
    rope = rope
    scaled = scaled
    softcap = softcap
    tempered = tempered
    times = times
    weighed = weighed
