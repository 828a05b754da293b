"""What a user may describe: frozen, strict pydantic nodes, one file a kind."""

from __future__ import annotations

from calc.spec.adapters import Bottleneck, Lora, Prefix, Prompt
from calc.spec.altup import AltUp
from calc.spec.attention import Attention
from calc.spec.audio import Across, Convolution, Frames, PositionConvolution, Quantizer
from calc.spec.band_attention import BandAttention
from calc.spec.block_attention import BlockAttention
from calc.spec.block_indexer import BlockIndexer
from calc.spec.byte_patches import Hashes, PatchAttention, Patched
from calc.spec.channels import Activation, GateClamp, Mlp
from calc.spec.chunk_attention import ChunkAttention
from calc.spec.compressed import CompressedAttention, Compressor, EntryIndexer
from calc.spec.conformer import ConvolutionModule, Shortened, SideConvolution
from calc.spec.contrast import Contrast
from calc.spec.convolved import Convolved
from calc.spec.deep_router import DeepRouter
from calc.spec.delta_net import DeltaNet
from calc.spec.denoising import Conditioning, Denoised, Denoising, Latents
from calc.spec.detection import Queries, ResNet
from calc.spec.experts import ExpertGroups, Moe
from calc.spec.fields import Node
from calc.spec.fronts import Embedding, Markers
from calc.spec.funnel import FunnelAttention, Halved
from calc.spec.gated_bias import GatedBias
from calc.spec.gated_convolution import GatedConvolution
from calc.spec.head_experts import HeadExperts
from calc.spec.heads import Head, Projection
from calc.spec.kda import Kda
from calc.spec.latent import Indexer, Mla
from calc.spec.layer_stack import Stack
from calc.spec.layers import LayerGroup, Mtp, Placement
from calc.spec.linear_attention import LinearAttention
from calc.spec.mixers import Branch, Parallel
from calc.spec.mobile_net import MobileNet, MobileStage
from calc.spec.model import Adapter, ModelSpec, Tower
from calc.spec.ngrams import NGrams
from calc.spec.norm import Norm, QkNorm
from calc.spec.page import BoxBuckets, Boxes, PageAttention, Picture
from calc.spec.patches import Patches, WindowedPositions
from calc.spec.per_layer import PerLayerInputs
from calc.spec.pooling import AttentionPool
from calc.spec.positions import Buckets, Disentangled, Shaw, Temperature
from calc.spec.projector import Dense, Projector
from calc.spec.pyramid import Neck, Pyramid
from calc.spec.residual import Residual
from calc.spec.restored import Restored
from calc.spec.retrieved import RetrievedExperts
from calc.spec.rg_lru import RgLru
from calc.spec.rope import Plane, Rope, RopeScaling
from calc.spec.rwkv4 import Rwkv4
from calc.spec.rwkv7 import Rwkv7
from calc.spec.segmentation import MaskDecoder
from calc.spec.series import Series
from calc.spec.shared_block import SharedBlock
from calc.spec.shorthand import Shorthand
from calc.spec.skipped import SkippedLayers
from calc.spec.sparse_blocks import SparseBlocks
from calc.spec.speech import Speech, Spoken, UnitWriter, Vocoder
from calc.spec.state_space import Mamba, Mamba2
from calc.spec.streams import StreamMixing
from calc.spec.tabular import Features
from calc.spec.tiles import Stages, Tiles
from calc.spec.trajectory import Trajectory
from calc.spec.windows import Merge, PooledAttention, WindowAttention

__all__ = [
    "Across",
    "Activation",
    "Adapter",
    "AltUp",
    "Attention",
    "AttentionPool",
    "BandAttention",
    "BlockAttention",
    "BlockIndexer",
    "Bottleneck",
    "BoxBuckets",
    "Boxes",
    "Branch",
    "Buckets",
    "ChunkAttention",
    "CompressedAttention",
    "Compressor",
    "Conditioning",
    "Contrast",
    "Convolution",
    "ConvolutionModule",
    "Convolved",
    "DeepRouter",
    "DeltaNet",
    "Denoised",
    "Denoising",
    "Dense",
    "Disentangled",
    "Embedding",
    "EntryIndexer",
    "ExpertGroups",
    "Features",
    "Frames",
    "FunnelAttention",
    "GateClamp",
    "GatedBias",
    "GatedConvolution",
    "Halved",
    "Hashes",
    "Head",
    "HeadExperts",
    "Indexer",
    "Kda",
    "Latents",
    "LayerGroup",
    "LinearAttention",
    "Lora",
    "Mamba",
    "Mamba2",
    "Markers",
    "MaskDecoder",
    "Merge",
    "Mla",
    "Mlp",
    "MobileNet",
    "MobileStage",
    "ModelSpec",
    "Moe",
    "Mtp",
    "NGrams",
    "Neck",
    "Node",
    "Norm",
    "PageAttention",
    "Parallel",
    "PatchAttention",
    "Patched",
    "Patches",
    "PerLayerInputs",
    "Picture",
    "Placement",
    "Plane",
    "PooledAttention",
    "PositionConvolution",
    "Prefix",
    "Projection",
    "Projector",
    "Prompt",
    "Pyramid",
    "QkNorm",
    "Quantizer",
    "Queries",
    "ResNet",
    "Residual",
    "Restored",
    "RetrievedExperts",
    "RgLru",
    "Rope",
    "RopeScaling",
    "Rwkv4",
    "Rwkv7",
    "Series",
    "SharedBlock",
    "Shaw",
    "Shortened",
    "Shorthand",
    "SideConvolution",
    "SkippedLayers",
    "SparseBlocks",
    "Speech",
    "Spoken",
    "Stack",
    "Stages",
    "StreamMixing",
    "Temperature",
    "Tiles",
    "Tower",
    "Trajectory",
    "UnitWriter",
    "Vocoder",
    "WindowAttention",
    "WindowedPositions",
]
