"""A stack: groups of equal layers, each a mixer and a channel mixer, between a front and what reads their result."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Self

from pydantic import Field, Tag, model_validator

from calc.errors import Refused
from calc.spec.altup import AltUp
from calc.spec.attention import Attention, Norm
from calc.spec.audio import Frames
from calc.spec.band_attention import BandAttention
from calc.spec.block_attention import BlockAttention
from calc.spec.denoising import Denoised, Latents
from calc.spec.detection import Queries, ResNet
from calc.spec.fields import NONE_BY_FALSE, Dim, Node
from calc.spec.fronts import Embedding
from calc.spec.gated_bias import GatedBias
from calc.spec.heads import Projection
from calc.spec.latent import Mla
from calc.spec.layers import LayerGroup
from calc.spec.mixers import kind_or
from calc.spec.page import PageAttention
from calc.spec.patches import Patches
from calc.spec.per_layer import PerLayerInputs
from calc.spec.pooling import AttentionPool
from calc.spec.positions import Buckets, Disentangled
from calc.spec.restored import Restored
from calc.spec.rwkv7 import Rwkv7
from calc.spec.streams import StreamMixing
from calc.spec.tabular import Features
from calc.spec.tiles import Tiles
from calc.spec.trajectory import Trajectory
from calc.spec.windows import WindowAttention

Front = Annotated[
    Annotated[Embedding, Tag("tokens")]
    | Annotated[Features, Tag("features")]
    | Annotated[Frames, Tag("frames")]
    | Annotated[Latents, Tag("latents")]
    | Annotated[Patches, Tag("patches")]
    | Annotated[Queries, Tag("queries")]
    | Annotated[ResNet, Tag("resnet")]
    | Annotated[Restored, Tag("restored")]
    | Annotated[Tiles, Tag("tiles")]
    | Annotated[Trajectory, Tag("trajectory")],
    kind_or("tokens"),
]


class Stack(Node):
    """A front, layers and what reads their result.

    schedule: the group name of each layer in order, where groups interleave; None: groups stand one after another.
    per_layer: a small input of its own for every layer. n_streams: residual streams that hyper-connections mix around
    every block (DeepSeek-V4); None: the one that is added to. stream_mixing: how they do. altup: streams of another
    kind. heads: dense layers behind the final norm. pool: what makes one vector of a picture's (SigLIP).
    denoised: what stands behind the layers of a denoiser.
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

    @model_validator(mode="after")
    def _pools_alone(self) -> Self:
        if self.pool is not None and (not isinstance(self.embedding, Patches) or self.heads):
            raise Refused("pool", "none, but behind a stack that reads pictures, without heads", self.embedding.kind)
        return self

    @model_validator(mode="after")
    def _scheduled(self) -> Self:
        names = [group.name for group in self.layers]
        if len(set(names)) != len(names):
            raise Refused("layers", "groups with different names", ", ".join(names))
        if self.schedule is not None:
            for group in self.layers:
                if (n := self.schedule.count(group.name)) != group.count:
                    raise Refused("schedule", f"{group.count} layers named {group.name}", n)
            if unknown := sorted(set(self.schedule) - set(names)):
                raise Refused("schedule", f"names among {', '.join(names)}", ", ".join(unknown))
        return self

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        for group in self.layers:
            shared = None if group.shared_block is None else group.shared_block.attention
            for attention in (*group.mixers, group.cross, shared):
                if not isinstance(attention, Attention):
                    continue
                if attention.d_head is None and self.d_model % attention.n_heads:
                    expected = f"a divisor of d_model = {self.d_model} (or d_head given)"
                    raise Refused("n_heads", expected, attention.n_heads)
                d_head = attention.d_head or self.d_model // attention.n_heads
                if attention.position == "rope" and attention.rope.plane is not None:
                    self._in_plane(d_head)
                if attention.position == "rope" and d_head % 2:
                    raise Refused("d_head", "an even width, since rotary positions turn pairs", d_head)
                share = attention.rope.fraction
                if attention.position == "rope" and not attention.rope.proportional and int(d_head * share) == 1:
                    raise Refused("rope.fraction", f"a share of d_head = {d_head} that holds a pair", share)
        return self

    def _in_plane(self, d_head: int) -> None:
        """Refuse rows and columns where there are none, and heads that two axes cannot share in pairs."""
        if not isinstance(self.embedding, Patches):
            raise Refused("rope.plane", "none, unless the stack reads pictures in patches", self.embedding.kind)
        if d_head % 4:
            raise Refused("d_head", "a multiple of 4, for rotary positions along both axes", d_head)

    @model_validator(mode="after")
    def _in_squares(self) -> Self:
        front = self.embedding
        if any(m.squares for m in self._mixers()) and (not isinstance(front, Patches) or front.n_special):
            raise Refused("squares", "null, unless the stack reads pictures in patches and nothing else", front.kind)
        return self

    @model_validator(mode="after")
    def _in_stages(self) -> Self:
        merges = any(group.merge is not None for group in self.layers)
        windows = any(isinstance(mixer, WindowAttention) for group in self.layers for mixer in group.mixers)
        if not merges and not windows:
            return self
        front = self.embedding
        if not isinstance(front, Patches) or front.n_special or front.n_registers or front.masked is not None:
            raise Refused("mixer", "windows of patches, or merged ones, where patches alone are read", front.kind)
        if self.pool is not None or self.per_layer is not None or self.n_streams or self.altup or self.layers[0].merge:
            raise Refused("layers", "one stream, merged ahead of later groups alone, and no pool", "others")
        stages = list(self.stages_of_groups.values())
        first = {stage: list(self.stages_of_groups)[stages.index(stage)] for stage in stages}
        names = self.schedule or ()
        order = [self.stages_of_groups[name] for name in names]
        if order != sorted(order) or any(names[order.index(stage)] != first[stage] for stage in set(order)):
            raise Refused("schedule", "one stage behind another, each begun by the group that merges", "another order")
        for name, width in self.widths.items():
            mixer = next(group.mixer for group in self.layers if group.name == name)
            if isinstance(mixer, WindowAttention) and width % mixer.n_heads:
                raise Refused("n_heads", f"a divisor of the width {width} of {name}", mixer.n_heads)
        return self

    @model_validator(mode="after")
    def _denoises(self) -> Self:
        layers = [group.denoising for group in self.layers if group.denoising is not None]
        front = self.embedding
        if self.denoised is None and not layers and not isinstance(front, Latents):
            return self
        if self.denoised is None or len(layers) < len(self.layers) or not isinstance(front, Latents):
            raise Refused("denoised", "what stands behind layers that all denoise latents", front.kind)
        if self.final_norm is not None or self.heads or self.pool is not None or self.schedule is not None:
            raise Refused("final_norm", "none, nor heads, behind a denoiser, whose groups stand in order", "others")
        of_text = [layer.streams for layer in layers]
        if any(each != "picture" for each in of_text) is (front.n_text is None):
            raise Refused("streams", "a text beside the picture where the latents have one", ", ".join(of_text))
        ends = self.layers[-1].count if of_text[-1] == "last" else 0
        if "last" in of_text[:-1] or (isinstance(ends, int) and ends > 1) or of_text[-1] == "beside":
            raise Refused("streams", "one layer that ends the text, or joined ones, behind all others", of_text[-1])
        if any(one == "joined" and other != "joined" for one, other in pairwise(of_text)):
            raise Refused("streams", "joined ones behind those beside one another", ", ".join(of_text))
        if any((layer.condition is None) is (front.condition is None) for layer in layers):
            raise Refused("condition", "one of all layers, or one of each", "both or none")
        if self.denoised.again is (front.condition is not None):
            raise Refused("again", "true where the condition is each layer's own", self.denoised.again)
        for layer in layers:
            if self.d_model % layer.n_heads:
                raise Refused("n_heads", f"a divisor of d_model = {self.d_model}", layer.n_heads)
            if layer.axes is not None and sum(layer.axes) * layer.n_heads != self.d_model:
                raise Refused(
                    "axes", f"widths that sum up to d_model / n_heads = {self.d_model // layer.n_heads}", "others"
                )
        if front.placed and self.d_model % 4:
            raise Refused("d_model", "a multiple of 4, for sines and cosines of rows and columns", self.d_model)
        return self

    @model_validator(mode="after")
    def _one_relative_table(self) -> Self:
        kinds = set(self._relative_tables())
        if self.gates_bias and not all(isinstance(m, GatedBias) for group in self.layers for m in group.mixers):
            raise Refused("mixer", "gated_bias in all layers, where there is one", "others")
        if len(kinds) > 1:
            raise Refused("buckets", "alike in all layers that share them, and their heads too", "different ones")
        if any(m.disentangled != other.disentangled for m, other in pairwise(self._mixers())):
            raise Refused("disentangled", "alike in all layers, which share its table", "different ones")
        return self

    @model_validator(mode="after")
    def _alike_in_blocks(self) -> Self:
        mixers = [mixer for group in self.layers for mixer in group.mixers]
        if self.in_blocks is not None and any(mixer != self.in_blocks for mixer in mixers):
            raise Refused("mixer", "alike in all layers, where attention stays in blocks", "different ones")
        return self

    @model_validator(mode="after")
    def _of_one_page(self) -> Self:
        mixers = [mixer for group in self.layers for mixer in group.mixers]
        if self.on_page is not None and any(mixer != self.on_page for mixer in mixers):
            raise Refused("mixer", "alike in all layers, where attention is on pages", "different ones")
        boxes = getattr(self.embedding, "boxes", None)
        if self.on_page is not None and (boxes is None or getattr(self.embedding, "picture", None) is None):
            raise Refused("embedding", "tokens with boxes, and a picture, for attention on pages", self.embedding.kind)
        if boxes is not None and 4 * boxes.d_place + 2 * boxes.d_extent != self.d_model:
            raise Refused("boxes", f"4 * d_place + 2 * d_extent = d_model = {self.d_model}", "another width")
        if any(each.per == "text" for each in self.heads) and self.on_page is None:
            raise Refused("per", "another kind where no picture stands behind the text", "text")
        return self

    @model_validator(mode="after")
    def _whole_chunks(self) -> Self:
        multiple = getattr(self.embedding, "multiple", None)
        for mixer in (mixer for group in self.layers for mixer in group.mixers):
            if isinstance(mixer, BandAttention) and (multiple is None or multiple % (2 * mixer.reach)):
                raise Refused("embedding.multiple", f"a multiple of 2 * reach = {2 * mixer.reach}", multiple)
        return self

    @model_validator(mode="after")
    def _alternates(self) -> Self:
        if self.altup is None:
            return self
        if self.n_streams is not None:
            raise Refused("n_streams", "null beside altup, which has streams of its own", self.n_streams)
        if not 1 <= self.altup.active + 1 <= self.altup.n or self.altup.n < 2:
            raise Refused("altup.n", "two streams at least, the active one among them", self.altup.n)
        if any(group.out_norm or group.out_scale or group.placement.startswith("parallel") for group in self.layers):
            raise Refused("altup", "null beside parallel blocks, or a norm or factor behind a layer", "streams")
        return self

    @model_validator(mode="after")
    def _lent(self) -> Self:
        """What a layer takes of an earlier one has to be there: keys and values, and the tokens that one has chosen."""
        of_name = {group.name: group.mixer for group in self.layers}
        lenders: set[int | None] = set()
        chooses = values = False
        for name in self.schedule or of_name:
            mixer = of_name[name]
            if isinstance(mixer, Attention) and mixer.kv != "earlier":
                lenders.add(mixer.window)
            elif isinstance(mixer, Attention) and mixer.window not in lenders:
                raise Refused("kv", "a layer before it with keys and values of its own, of the same window", "earlier")
            if isinstance(mixer, Rwkv7) and mixer.value_rank is None:
                values = True
            elif isinstance(mixer, Rwkv7) and not values:
                raise Refused("value_rank", "a layer before it whose values it mixes in (value_rank none)", "none")
            if isinstance(mixer, Mla):
                chooses = chooses or mixer.indexer is not None
                if mixer.top_k is not None and not chooses:
                    raise Refused("indexer", "one in this layer or in one before it, beside top_k", None)
        return self

    @model_validator(mode="after")
    def _reads_each_other(self) -> Self:
        names: list[str] = []
        for each in self.heads:
            if each.reads is not None and each.reads not in names:
                raise Refused(f"{each.name}.reads", f"a head before it ({', '.join(names) or 'none'})", each.reads)
            names.append(each.name)
        return self

    @model_validator(mode="after")
    def _windows_of_tokens(self) -> Self:
        if isinstance(self.embedding, Trajectory) and any(mixer.window is not None for mixer in self._mixers()):
            raise Refused("window", "none, since it counts tokens and a trajectory's sequence counts steps", "a window")
        return self

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
            found[group.name] = width
        return found

    @property
    def end_width(self) -> int:
        """Width of the vectors behind the last layer."""
        return self.widths[self.layers[-1].name]

    def _mixers(self) -> list[Attention]:
        return [mixer for group in self.layers for mixer in group.mixers if isinstance(mixer, Attention)]

    @property
    def relative_bias(self) -> tuple[Buckets, int] | None:
        """The buckets and heads of the table that all layers share, where they do (T5)."""
        return next(iter(self._relative_tables()), None)

    def _relative_tables(self) -> list[tuple[Buckets, int]]:
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
        first = next((mixer.disentangled for mixer in self._mixers()), None)
        return None if first is None else (first, self.layers[0].norm)

    @property
    def n_layers(self) -> int:
        return sum(group.count for group in self.layers)
