"""What a stack holds: a front, groups of equal layers, and what reads their result; and what follows from them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, Tag

from calc.spec.altup import AltUp
from calc.spec.attention import Attention
from calc.spec.audio import Frames
from calc.spec.block_attention import BlockAttention
from calc.spec.denoising import Denoised, Latents
from calc.spec.detection import Queries, ResNet
from calc.spec.experts import Moe
from calc.spec.fields import NONE_BY_FALSE, Dim, Node
from calc.spec.fronts import Embedding
from calc.spec.gated_bias import GatedBias
from calc.spec.heads import Projection
from calc.spec.layers import LayerGroup
from calc.spec.mixers import kind_or
from calc.spec.norm import Norm
from calc.spec.page import PageAttention
from calc.spec.patches import Patches
from calc.spec.per_layer import PerLayerInputs
from calc.spec.pooling import AttentionPool
from calc.spec.positions import Buckets, Disentangled
from calc.spec.pyramid import Neck, Pyramid
from calc.spec.restored import Restored
from calc.spec.segmentation import MaskDecoder
from calc.spec.series import Series
from calc.spec.streams import StreamMixing
from calc.spec.tabular import Features
from calc.spec.tiles import Stages, Tiles
from calc.spec.trajectory import Trajectory

Front = Annotated[
    Annotated[Embedding, Tag("tokens")]
    | Annotated[Features, Tag("features")]
    | Annotated[Frames, Tag("frames")]
    | Annotated[Latents, Tag("latents")]
    | Annotated[Patches, Tag("patches")]
    | Annotated[Queries, Tag("queries")]
    | Annotated[ResNet, Tag("resnet")]
    | Annotated[Restored, Tag("restored")]
    | Annotated[Series, Tag("series")]
    | Annotated[Tiles, Tag("tiles")]
    | Annotated[Trajectory, Tag("trajectory")],
    kind_or("tokens"),
]


class StackFields(Node):
    """A front, layers and what reads their result.

    schedule: the group name of each layer in order, where groups interleave; None: groups stand one after another.
    per_layer: a small input of its own for every layer. n_streams: residual streams that hyper-connections mix around
    every block (DeepSeek-V4); None: the one that is added to. stream_mixing: how they do. altup: streams of another
    kind. heads: dense layers behind the final norm. pool: what makes one vector of a picture's (SigLIP).
    denoised: what stands behind the layers of a denoiser. pyramid: maps of what each stage of patches gives (SAM 2).
    neck: one map of what the last layer gives (Segment Anything). mask_decoder: what makes masks of them and of a
    prompt. stages: of pictures in tiles, whose last group of layers is a second stage. every: of what the layers give
    every so many-th vector is read on, those of padding as zeros (Gemma 3n's ears); None: all, as they are.
    """

    d_model: Dim
    embedding: Front = Embedding()
    layers: tuple[LayerGroup, ...] = Field(min_length=1)
    schedule: tuple[str, ...] | None = None
    final_norm: Annotated[Norm | None, NONE_BY_FALSE] = Norm()
    per_layer: PerLayerInputs | None = None
    n_streams: Dim | None = None
    stream_mixing: StreamMixing = StreamMixing()
    altup: AltUp | None = None
    heads: tuple[Projection, ...] = ()
    pool: AttentionPool | None = None
    denoised: Denoised | None = None
    pyramid: Pyramid | None = None
    neck: Neck | None = None
    mask_decoder: MaskDecoder | None = None
    stages: Stages | None = None
    every: int | None = Field(default=None, gt=0, le=10**4)

    @property
    def stages_of_groups(self) -> dict[str, int]:
        """Group name -> how often patches have been merged ahead of it."""
        found, stage = {}, 0
        for group in self.layers:
            stage += group.merge is not None
            found[group.name] = stage
        return found

    @property
    def widths(self) -> dict[str, int]:
        """Group name -> width of the vectors that its layers read; that of the last is what the stack gives."""
        found, width = {}, self.d_model
        for group in self.layers:
            width = width if group.merge is None else group.merge.d_merged
            width = width if group.patched is None else group.patched.width(width)
            width = width if group.unpatched is None else self.d_model
            found[group.name] = width
        return found

    @property
    def patch_lengths(self) -> list[int | None]:
        """Of each group, how long the patches are that stand ahead of it; None without any."""
        found: list[int | None] = []
        for group in self.layers:
            found.append(group.patched.length if group.patched is not None else found[-1] if found else None)
        return found

    @property
    def least_steps(self) -> int:
        """How long a sequence must be at the least, so that what shortens it leaves something."""
        least = 1
        for each in (group.shortened for group in reversed(self.layers)):
            least = least if each is None else max(1, (least - 1) * each.stride + each.kernel - 2 * each.padding)
        return least

    @property
    def stage_widths(self) -> list[int]:
        """Width of the vectors behind each stage."""
        return [self.widths[name] for name in {stage: name for name, stage in self.stages_of_groups.items()}.values()]

    @property
    def end_width(self) -> int:
        """Width of the vectors behind the last layer."""
        return self.widths[self.layers[-1].name]

    @property
    def attentions(self) -> list[Attention]:
        """The mixers that are attention over keys and values."""
        return [mixer for group in self.layers for mixer in group.mixers if isinstance(mixer, Attention)]

    @property
    def has_experts(self) -> bool:
        """Whether tokens choose among experts in place of a feed-forward block."""
        return any(isinstance(group.channel, Moe) for group in self.layers)

    @property
    def relative_bias(self) -> tuple[Buckets, int] | None:
        """The buckets and heads of the table that all layers share, where they do (T5)."""
        return next(iter(self.relative_tables), None)

    @property
    def relative_tables(self) -> list[tuple[Buckets, int]]:
        """Those of each mixer that reads a table of all layers."""
        mixers = (m for group in self.layers for m in group.mixers if isinstance(m, Attention | GatedBias))
        return [(m.buckets, m.n_heads) for m in mixers if m.buckets is not None and m.buckets.shared]

    @property
    def gates_bias(self) -> bool:
        """Whether what that table says passes a gate, so that each sequence has a copy of it (WavLM)."""
        return any(isinstance(mixer, GatedBias) for group in self.layers for mixer in group.mixers)

    @property
    def stream_width(self) -> int:
        """Numbers that a token has between two layers: d_model, of each stream where there are several."""
        return self.d_model * (self.n_streams or (1 if self.altup is None else self.altup.n))

    @property
    def routers_carry(self) -> bool:
        """Whether routers read what those of the layer before made (ZAYA1)."""
        routers = (getattr(group.channel, "deep_router", None) for group in self.layers)
        return any(router is not None and router.carries for router in routers)

    @property
    def in_blocks(self) -> BlockAttention | None:
        """The attention in blocks whose tables all layers share, where there is such (LongT5)."""
        mixers = (mixer for group in self.layers for mixer in group.mixers)
        return next((mixer for mixer in mixers if isinstance(mixer, BlockAttention)), None)

    @property
    def on_page(self) -> PageAttention | None:
        """The attention whose tables all layers share, where vectors stand on a page (LayoutLMv3)."""
        mixers = (mixer for group in self.layers for mixer in group.mixers)
        return next((mixer for mixer in mixers if isinstance(mixer, PageAttention)), None)

    @property
    def distances(self) -> tuple[Disentangled, Norm] | None:
        """The table of distances' vectors that all layers read, and the norm that it may pass (DeBERTa)."""
        first = next((mixer.disentangled for mixer in self.attentions), None)
        return None if first is None else (first, self.layers[0].norm)

    @property
    def n_layers(self) -> int:
        return sum(group.count for group in self.layers)
