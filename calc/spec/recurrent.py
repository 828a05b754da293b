"""Which mixers carry a state from token to token."""

from __future__ import annotations

from calc.spec.delta_net import DeltaNet
from calc.spec.gated_convolution import GatedConvolution
from calc.spec.kda import Kda
from calc.spec.linear_attention import LinearAttention
from calc.spec.model import ModelSpec
from calc.spec.rg_lru import RgLru
from calc.spec.rwkv4 import Rwkv4
from calc.spec.rwkv7 import Rwkv7
from calc.spec.state_space import Mamba, Mamba2

RECURRENT = (DeltaNet, GatedConvolution, Kda, LinearAttention, Mamba, Mamba2, RgLru, Rwkv4, Rwkv7)
"""Mixers that carry a state. What they hold while they run is known of kernels alone, not operator by operator."""


def recurrent(spec: ModelSpec) -> bool:
    """Whether any layer has a recurrent mixer, alone or beside others."""
    groups = (group for stack in spec.stacks for group in stack.layers)
    return any(isinstance(mixer, RECURRENT) for group in groups for mixer in group.mixers)
