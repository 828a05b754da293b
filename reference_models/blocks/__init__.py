"""Blocks as modules, the twins of `calc.blocks`. Three explicit tables say which description is built as what."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

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
from reference_models.blocks.attention import SelfAttention
from reference_models.blocks.band_attention import InBand
from reference_models.blocks.block_attention import InBlocks
from reference_models.blocks.chunk_attention import OfChunks
from reference_models.blocks.compressed import CompressedSparseAttention
from reference_models.blocks.delta_net import GatedDeltaNet
from reference_models.blocks.detection import ObjectQueries, PictureMap
from reference_models.blocks.embedding import TokenEmbedding
from reference_models.blocks.frames import FrameEmbedding
from reference_models.blocks.funnel import OverSegments
from reference_models.blocks.gated_bias import GatedBiasAttention
from reference_models.blocks.gated_convolution import GatedConvolutionMixer
from reference_models.blocks.kda import KimiDeltaAttention
from reference_models.blocks.latent import LatentAttention
from reference_models.blocks.linear_attention import KernelAttention
from reference_models.blocks.mamba import MambaMixer
from reference_models.blocks.mamba2 import Mamba2Mixer
from reference_models.blocks.mlp import FeedForward
from reference_models.blocks.moe import MixtureOfExperts
from reference_models.blocks.page_attention import OnPage
from reference_models.blocks.parallel import SideBySide
from reference_models.blocks.patches import PatchEmbedding
from reference_models.blocks.restored import RestoredPatches
from reference_models.blocks.retrieved import WithRetrieved
from reference_models.blocks.rg_lru import RgLruMixer
from reference_models.blocks.rwkv4 import Rwkv4Mixer
from reference_models.blocks.rwkv7 import Rwkv7Mixer
from reference_models.blocks.series import SeriesEmbedding
from reference_models.blocks.tabular import FeatureTokenizer
from reference_models.blocks.tiles import TileEmbedding
from reference_models.blocks.trajectory import TrajectoryEmbedding
from reference_models.blocks.windows import windows_of

MIXERS: dict[type[Node], Callable[..., nn.Module]] = {
    Attention: SelfAttention,
    BandAttention: InBand,
    FunnelAttention: OverSegments,
    BlockAttention: InBlocks,
    ChunkAttention: OfChunks,
    GatedBias: GatedBiasAttention,
    PageAttention: OnPage,
    CompressedAttention: CompressedSparseAttention,
    LinearAttention: KernelAttention,
    DeltaNet: GatedDeltaNet,
    Kda: KimiDeltaAttention,
    GatedConvolution: GatedConvolutionMixer,
    Mamba: MambaMixer,
    Mamba2: Mamba2Mixer,
    RgLru: RgLruMixer,
    Rwkv4: Rwkv4Mixer,
    Rwkv7: Rwkv7Mixer,
    Mla: LatentAttention,
    WindowAttention: windows_of,
    Parallel: lambda spec, d_model: SideBySide(spec, d_model, MIXERS),
}
"""(spec, d_model) -> module with a `name`, `new_cache(length)` and `forward(x, step, cache)`."""

CHANNELS: dict[type[Node], Callable[..., nn.Module]] = {
    Mlp: FeedForward,
    Moe: MixtureOfExperts,
    RetrievedExperts: WithRetrieved,
}
"""(spec, d_model) -> module with a `name` and `forward(x, step)`."""

FRONTS: dict[type[Node], Callable[..., nn.Module]] = {
    Embedding: TokenEmbedding,
    Features: FeatureTokenizer,
    Frames: FrameEmbedding,
    Patches: PatchEmbedding,
    Queries: ObjectQueries,
    ResNet: PictureMap,
    Restored: RestoredPatches,
    Series: SeriesEmbedding,
    Tiles: TileEmbedding,
    Trajectory: TrajectoryEmbedding,
}
"""(spec, vocab_size, d_model) -> module with `forward(inputs, step) -> [batch, n, d_model]`."""

__all__ = ["CHANNELS", "FRONTS", "MIXERS"]
