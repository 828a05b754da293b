"""Blocks: each lays down the ops of one piece of a layer. Three explicit tables say which description is laid how."""

from __future__ import annotations

from collections.abc import Callable

from calc.blocks.attention import attention
from calc.blocks.compressed import compressed_attention
from calc.blocks.delta_net import delta_net
from calc.blocks.detection import queries, resnet
from calc.blocks.embedding import tokens
from calc.blocks.frames import frames
from calc.blocks.gated_convolution import gated_convolution
from calc.blocks.kda import kda
from calc.blocks.latent import mla
from calc.blocks.linear_attention import linear_attention
from calc.blocks.mlp import mlp
from calc.blocks.moe import moe
from calc.blocks.parallel import parallel
from calc.blocks.patches import patches
from calc.blocks.rwkv7 import rwkv7
from calc.blocks.state_space import mamba, mamba2
from calc.blocks.tabular import features
from calc.blocks.trajectory import trajectory
from calc.op import Part
from calc.sizes import Size
from calc.spec import (
    Attention,
    CompressedAttention,
    DeltaNet,
    Embedding,
    Features,
    Frames,
    GatedConvolution,
    Kda,
    LinearAttention,
    Mamba,
    Mamba2,
    Mla,
    Mlp,
    Moe,
    Node,
    Parallel,
    Patches,
    Queries,
    ResNet,
    Rwkv7,
    Trajectory,
)

MIXERS: dict[type[Node], Callable[..., Part]] = {
    Attention: attention,
    LinearAttention: linear_attention,
    DeltaNet: delta_net,
    Kda: kda,
    GatedConvolution: gated_convolution,
    Mamba: mamba,
    Mamba2: mamba2,
    Rwkv7: rwkv7,
    Mla: mla,
    CompressedAttention: compressed_attention,
    Parallel: lambda spec, d_model, load: parallel(spec, d_model, load, MIXERS),
}
"""(spec, d_model, load) -> the part that mixes tokens; its name is the path of its weights."""

CHANNELS: dict[type[Node], Callable[..., Part]] = {Mlp: mlp, Moe: moe}
"""(spec, d_model, tokens) -> the part that acts on each token alone."""

FRONTS: dict[type[Node], Callable[..., tuple[Part, Size]]] = {
    Embedding: tokens,
    Features: features,
    Frames: frames,
    Patches: patches,
    Queries: queries,
    ResNet: resnet,
    Trajectory: trajectory,
}
"""(spec, vocab_size, d_model, load) -> (the part, the vectors it gives for each sequence)."""

__all__ = ["CHANNELS", "FRONTS", "MIXERS"]
