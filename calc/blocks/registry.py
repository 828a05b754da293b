"""Which description is laid by which program: three explicit tables, whose programs are imported when first met."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from calc.spec import (
    Attention,
    BandAttention,
    BlockAttention,
    ChunkAttention,
    CompressedAttention,
    DeltaNet,
    Embedding,
    Features,
    Frames,
    FunnelAttention,
    GatedBias,
    GatedConvolution,
    Kda,
    Latents,
    LinearAttention,
    Mamba,
    Mamba2,
    Mla,
    Mlp,
    Moe,
    Node,
    PageAttention,
    Parallel,
    Patches,
    Queries,
    ResNet,
    Restored,
    RetrievedExperts,
    RgLru,
    Rwkv4,
    Rwkv7,
    Series,
    Tiles,
    Trajectory,
    WindowAttention,
)
from calc.trace.op import Component


class Program(NamedTuple):
    """One kind of block. name: of its part, and so the path of its weights. of: what these are reported as.

    source: where its function is: (trace, description, x [batch * seq, d_model], load, around) -> the same shape.
    """

    name: str
    of: Component
    source: str

    @property
    def run(self) -> Callable[..., Any]:
        """The function itself."""
        return _function(self.source)


MIXERS: dict[type[Node], Program] = {
    Attention: Program("attention", "attention", "attention.attention"),
    BandAttention: Program("attention", "attention", "band_attention.band_attention"),
    BlockAttention: Program("attention", "attention", "block_attention.block_attention"),
    ChunkAttention: Program("attention", "attention", "chunk_attention.chunk_attention"),
    FunnelAttention: Program("attention", "attention", "funnel.funnel_attention"),
    GatedBias: Program("attention", "attention", "gated_bias.gated_bias"),
    PageAttention: Program("attention", "attention", "page_attention.page_attention"),
    WindowAttention: Program("attention", "attention", "windows.window_attention"),
    CompressedAttention: Program("attention", "attention", "compressed.compressed_attention"),
    Mla: Program("attention", "attention", "latent.latent_attention"),
    DeltaNet: Program("delta_net", "ssm", "delta_net.delta_net"),
    GatedConvolution: Program("gated_convolution", "ssm", "gated_convolution.gated_convolution"),
    Kda: Program("kda", "ssm", "kda.kda"),
    LinearAttention: Program("linear_attention", "ssm", "linear_attention.linear_attention"),
    Mamba: Program("mamba", "ssm", "state_space.mamba"),
    Mamba2: Program("mamba2", "ssm", "state_space.mamba2"),
    RgLru: Program("rg_lru", "ssm", "rg_lru.rg_lru"),
    Rwkv4: Program("rwkv4", "ssm", "rwkv4.rwkv4"),
    Rwkv7: Program("rwkv7", "ssm", "rwkv7.rwkv7"),
    Parallel: Program("parallel", "other", "parallel.parallel"),
}
"""What mixes tokens."""

CHANNELS: dict[type[Node], Program] = {
    Mlp: Program("mlp", "mlp", "mlp.dense"),
    Moe: Program("moe", "mlp", "moe.moe"),
    RetrievedExperts: Program("mlp", "shared_expert", "retrieved.retrieved_experts"),
}
"""What acts on each token alone."""

FRONTS: dict[type[Node], str] = {
    Embedding: "embedding.token_vectors",
    Patches: "patches.patches",
    Frames: "frames.frames",
    ResNet: "detection.resnet",
    Restored: "restored.restored",
    Queries: "detection.queries",
    Features: "tabular.features",
    Latents: "latents.latents",
    Series: "series.series",
    Tiles: "tiles.tiles",
    Trajectory: "trajectory.trajectory",
}
"""What turns the input into vectors: (trace, description, vocab_size, d_model, load) -> `FrontOutput`."""


def front_of(embedding: Node) -> Callable[..., Any]:
    """The program of a stack's front."""
    return _function(FRONTS[type(embedding)])


@cache
def _function(source: str) -> Callable[..., Any]:
    module, _, name = source.rpartition(".")
    return getattr(import_module(f"calc.blocks.{module}"), name)
