"""Which description is laid by which program: three explicit tables."""

from __future__ import annotations

from collections.abc import Callable

from calc.blocks.attention import attention
from calc.blocks.compressed import compressed_attention
from calc.blocks.delta_net import delta_net
from calc.blocks.detection import queries, resnet
from calc.blocks.embedding import tokens
from calc.blocks.first import First
from calc.blocks.frames import frames
from calc.blocks.gated_convolution import gated_convolution
from calc.blocks.kda import kda
from calc.blocks.latent import latent_attention
from calc.blocks.linear_attention import linear_attention
from calc.blocks.mlp import dense
from calc.blocks.moe import moe
from calc.blocks.parallel import parallel
from calc.blocks.patches import patches
from calc.blocks.program import Program
from calc.blocks.rwkv7 import rwkv7
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

MIXERS: dict[type[Node], Program] = {
    Attention: Program("attention", "attention", attention),
    CompressedAttention: Program("attention", "attention", compressed_attention),
    Mla: Program("attention", "attention", latent_attention),
    DeltaNet: Program("delta_net", "ssm", delta_net),
    GatedConvolution: Program("gated_convolution", "ssm", gated_convolution),
    Kda: Program("kda", "ssm", kda),
    LinearAttention: Program("linear_attention", "ssm", linear_attention),
    Mamba: Program("mamba", "ssm", mamba),
    Mamba2: Program("mamba2", "ssm", mamba2),
    Rwkv7: Program("rwkv7", "ssm", rwkv7),
    Parallel: Program("parallel", "other", lambda t, spec, x, load, around: parallel(t, spec, x, load, around, MIXERS)),
}
"""What mixes tokens."""

CHANNELS: dict[type[Node], Program] = {
    Mlp: Program("mlp", "mlp", dense),
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
