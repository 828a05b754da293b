"""Which description is laid by which program: three explicit tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from calc.blocks.attention import attention
from calc.blocks.detection import queries, resnet
from calc.blocks.embedding import tokens
from calc.blocks.first import First
from calc.blocks.frames import frames
from calc.blocks.mlp import mlp
from calc.blocks.patches import patches
from calc.blocks.tabular import features
from calc.blocks.trajectory import trajectory
from calc.op import Component
from calc.spec import Attention, Embedding, Features, Frames, Mlp, Node, Patches, Queries, ResNet, Trajectory
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
}
"""What mixes tokens."""

CHANNELS: dict[type[Node], Program] = {
    Mlp: Program("mlp", "mlp", lambda t, spec, x, load, around: mlp(t, spec, x)),
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
