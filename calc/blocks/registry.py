"""Which description is laid by which program: three explicit tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from calc.blocks.attention import attention
from calc.blocks.compressed import compressed_attention
from calc.blocks.delta_net import delta_net
from calc.blocks.detection import queries, resnet
from calc.blocks.embedding import tokens
from calc.blocks.first import First
from calc.blocks.frames import frames
from calc.blocks.gated_convolution import gated_convolution
from calc.blocks.latent import latent_attention
from calc.blocks.linear_attention import linear_attention
from calc.blocks.mlp import mlp
from calc.blocks.moe import moe
from calc.blocks.patches import patches
from calc.blocks.state_space import mamba, mamba2
from calc.blocks.tabular import features
from calc.blocks.trajectory import trajectory
from calc.spec import (
    Attention,
    CompressedAttention,
    DeltaNet,
    Embedding,
    Features,
    Frames,
    GatedConvolution,
    LinearAttention,
    Mamba,
    Mamba2,
    Mla,
    Mlp,
    Moe,
    Node,
    Patches,
    Queries,
    ResNet,
    Trajectory,
)
from calc.trace.op import Component
from calc.trace.tensor import Tensor


class Program(NamedTuple):
    """One kind of block. name: of its part, and so the path of its weights. of: what these are reported as.

    run: (trace, description, x [batch * seq, d_model], load, around) -> the same shape.
    """

    name: str
    of: Component
    run: Callable[..., Tensor]


MIXERS: dict[type[Node], Program] = {
    Attention: Program("attention", "attention", attention),
    CompressedAttention: Program("attention", "attention", compressed_attention),
    Mla: Program("attention", "attention", latent_attention),
    DeltaNet: Program("delta_net", "ssm", delta_net),
    GatedConvolution: Program("gated_convolution", "ssm", gated_convolution),
    LinearAttention: Program("linear_attention", "ssm", linear_attention),
    Mamba: Program("mamba", "ssm", mamba),
    Mamba2: Program("mamba2", "ssm", mamba2),
}
"""What mixes tokens."""

CHANNELS: dict[type[Node], Program] = {
    Mlp: Program("mlp", "mlp", lambda t, spec, x, load, around: mlp(t, spec, x)),
    Moe: Program("moe", "mlp", moe),
}
"""What acts on each token alone."""

FRONTS: dict[type[Node], Callable[..., First]] = {
    Embedding: tokens,
    Patches: patches,
    Frames: frames,
    ResNet: resnet,
    Queries: queries,
    Features: features,
    Trajectory: trajectory,
}
"""(trace, description, vocab_size, d_model, load) -> what the layers start from."""
