"""The description of a model: groups of equal layers, each a mixer and a channel mixer, between a front and heads.

Structure (gated? tied? which window?) is written here and decides which ops exist; sizes decide how large they are.
A size left None follows from the others as its field says, and does so in formulas too.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from calc.errors import Refused
from calc.spec.adapters import Bottleneck, Lora, Prefix, Prompt
from calc.spec.attention import Attention, Norm
from calc.spec.audio import Frames
from calc.spec.channels import Mlp, Moe
from calc.spec.compressed import CompressedAttention
from calc.spec.conformer import ConvolutionModule
from calc.spec.contrast import Contrast
from calc.spec.delta_net import DeltaNet
from calc.spec.detection import Queries, ResNet
from calc.spec.fields import Count, Dim, Node
from calc.spec.fronts import Embedding
from calc.spec.heads import Head, Projection
from calc.spec.latent import Mla
from calc.spec.linear_attention import LinearAttention
from calc.spec.patches import Patches
from calc.spec.per_layer import PerLayerInputs
from calc.spec.positions import Buckets
from calc.spec.projector import Projector
from calc.spec.state_space import Mamba, Mamba2
from calc.spec.tabular import Features
from calc.spec.trajectory import Trajectory

NONE_BY_FALSE = BeforeValidator(lambda value: None if value is False else value)
"""`false` says that there is none: TOML has no null."""
Placement = Literal["pre", "post", "output", "sandwich", "parallel", "parallel-two-norms"]


def kind_or(default: str) -> Discriminator:
    """Chooses a class of a union by the field `kind`, which may be left out where it says `default`."""

    def kind(value: Any) -> Any:
        return value.get("kind", default) if isinstance(value, dict) else getattr(value, "kind", None)

    return Discriminator(kind)


Mixer = Annotated[
    Annotated[Attention, Tag("attention")]
    | Annotated[LinearAttention, Tag("linear_attention")]
    | Annotated[Mla, Tag("mla")]
    | Annotated[CompressedAttention, Tag("compressed_attention")]
    | Annotated[DeltaNet, Tag("delta_net")]
    | Annotated[Mamba, Tag("mamba")]
    | Annotated[Mamba2, Tag("mamba2")],
    kind_or("attention"),
]
Channel = Annotated[Annotated[Mlp, Tag("mlp")] | Annotated[Moe, Tag("moe")], kind_or("mlp")]
Front = Annotated[
    Annotated[Embedding, Tag("tokens")]
    | Annotated[Features, Tag("features")]
    | Annotated[Frames, Tag("frames")]
    | Annotated[Patches, Tag("patches")]
    | Annotated[Queries, Tag("queries")]
    | Annotated[ResNet, Tag("resnet")]
    | Annotated[Trajectory, Tag("trajectory")],
    kind_or("tokens"),
]

Adapter = Annotated[
    Annotated[Lora, Tag("lora")]
    | Annotated[Prefix, Tag("prefix")]
    | Annotated[Prompt, Tag("prompt")]
    | Annotated[Bottleneck, Tag("bottleneck")],
    kind_or("lora"),
]


class LayerGroup(Node):
    """`count` layers that are alike in structure and size.

    A layer runs its mixer, then attention over an encoder (`cross`), then its channel mixer; any of them may be absent.
    placement: where the norms stand. `pre`: x + f(norm(x)). `post`: norm(x + f(x)). `output`: x + norm(f(x)) (OLMo 2).
    `sandwich`: x + norm(f(norm(x))) (Gemma 2). `parallel`: x + mixer(norm(x)) + channel(norm(x)), one norm for both;
    `parallel-two-norms`: each has its own (GPT-NeoX).
    shared: all layers use one set of weights (ALBERT). residual_scale: what each block's result is multiplied with
    before it is added (Granite).
    Conformer (Gulati et al. 2020): macaron: a channel mixer like `channel` comes first too, and both are added by half.
    convolution: comes after attention. out_norm: a norm on what leaves the layer.
    first_norm: False where the first block reads its input as it is (the first layer of FT-Transformer, before which
    nothing has been added up).
    """

    symbols: ClassVar[dict[str, str]] = {"count": "n_layers"}
    name: str = Field(default="layers", pattern=r"^[a-z][a-z0-9_]*$")
    count: Count
    mixer: Mixer | None = None
    cross: Attention | None = None
    channel: Channel | None = None
    macaron: bool = False
    convolution: ConvolutionModule | None = None
    out_norm: bool = False
    first_norm: bool = True
    norm: Norm = Norm()
    placement: Placement = "pre"
    shared: bool = False
    residual_scale: float = 1.0

    def group(self, outer: str) -> str:
        """The name that tells this group's sizes from others': its own, with its tower's before it."""
        if not outer:
            return self.name
        return outer if self.name == "layers" else f"{outer}_{self.name}"

    @model_validator(mode="after")
    def _parallel(self) -> Self:
        if self.placement.startswith("parallel") and (self.mixer is None or self.channel is None or self.cross):
            raise Refused("placement", "pre or post, without a mixer beside a channel mixer", self.placement)
        if self.placement.startswith("parallel") and (self.macaron or self.convolution):
            raise Refused("placement", "pre or post, in a layer with further blocks", self.placement)
        if not self.first_norm and self.placement != "pre":
            raise Refused("first_norm", "true, unless norms stand before the blocks", False)
        if self.macaron and self.channel is None:
            raise Refused("macaron", "false without a channel mixer", True)
        return self


class Mtp(Node):
    """Modules that each predict one token further ahead (DeepSeek-V3: arXiv:2412.19437, section 2.2), counted if asked.

    A module norms the embedding of the next token and what the module before it gave, projects both side by side to
    d_model, and runs a layer (`mixer`, `channel`, `norm` before each) and a norm of its own; table and head are the
    model's.
    """

    symbols: ClassVar[dict[str, str]] = {"count": "n_mtp"}
    count: Count
    mixer: Mixer
    channel: Channel
    norm: Norm = Norm()

    def group(self, outer: str) -> str:
        """`mtp`, where its sizes differ from the layers'."""
        return "mtp"


class Stack(Node):
    """A front, layers and what reads their result.

    schedule: the group name of each layer in order, where groups interleave; None: groups stand one after another.
    per_layer: a small input of its own for every layer. n_streams: residual streams that hyper-connections mix around
    every block (DeepSeek-V4); None: the one that is added to. heads: dense layers behind the final norm.
    """

    d_model: Dim
    embedding: Front = Embedding()
    layers: tuple[LayerGroup, ...] = Field(min_length=1)
    schedule: tuple[str, ...] | None = None
    final_norm: Annotated[Norm | None, NONE_BY_FALSE] = Norm()
    per_layer: PerLayerInputs | None = None
    n_streams: Dim | None = None
    heads: tuple[Projection, ...] = ()

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
            for attention in (group.mixer, group.cross):
                if not isinstance(attention, Attention):
                    continue
                if attention.d_head is None and self.d_model % attention.n_heads:
                    expected = f"a divisor of d_model = {self.d_model} (or d_head given)"
                    raise Refused("n_heads", expected, attention.n_heads)
                d_head = attention.d_head or self.d_model // attention.n_heads
                if attention.position == "rope" and d_head % 2:
                    raise Refused("d_head", "an even width, since rotary positions turn pairs", d_head)
        return self

    @model_validator(mode="after")
    def _one_relative_table(self) -> Self:
        kinds = {(m.buckets, m.n_heads) for m in self._mixers() if m.buckets is not None and m.buckets.shared}
        if len(kinds) > 1:
            raise Refused("buckets", "alike in all layers that share them, and their heads too", "different ones")
        return self

    @model_validator(mode="after")
    def _windows_of_tokens(self) -> Self:
        if isinstance(self.embedding, Trajectory) and any(mixer.window is not None for mixer in self._mixers()):
            raise Refused("window", "none, since it counts tokens and a trajectory's sequence counts steps", "a window")
        return self

    def _mixers(self) -> list[Attention]:
        return [group.mixer for group in self.layers if isinstance(group.mixer, Attention)]

    @property
    def relative_bias(self) -> tuple[Buckets, int] | None:
        """The buckets and heads of the table that all layers share, where they do (T5)."""
        shared = ((m.buckets, m.n_heads) for m in self._mixers() if m.buckets is not None and m.buckets.shared)
        return next(shared, None)

    @property
    def n_layers(self) -> int:
        return sum(group.count for group in self.layers)


class Tower(Stack):
    """A stack beside the main one: the encoder that a decoder reads, or the vision tower of a language model.

    projectors: what brings the tower's vectors to the width of the stack that reads them.
    """

    name: Literal["encoder", "vision"]
    projectors: tuple[Projector, ...] = ()

    def group(self, outer: str) -> str:
        """The name of the tower, which tells its sizes from the main stack's."""
        return self.name


class ModelSpec(Stack):
    """A whole model; its own fields describe the main stack, the one that ends in `head`.

    vocab_size: None for a model without tokens. max_seq_len: the longest context it is made for, in tokens; None where
    it has no bound of its own. encoder: the stack whose result `cross` attends to. contrast: what compares
    the vectors of texts with those of pictures. mtp: modules for further tokens, which only a Load that asks counts.
    notes: what was assumed while the description was read.
    """

    name: str = Field(default="model", pattern=r"^[^\x00-\x1f\x7f-\x9f]{1,200}$")
    family: str = "custom"
    vocab_size: Dim | None = None
    max_seq_len: int | None = Field(default=None, gt=0, le=2**31)
    head: Annotated[Head | None, NONE_BY_FALSE] = Head()
    encoder: Tower | None = None
    vision: Tower | None = None
    contrast: Contrast | None = None
    adapter: Adapter | None = None
    mtp: Mtp | None = None
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.vocab_size is None and (self.head is not None or isinstance(self.embedding, Embedding)):
            raise Refused("vocab_size", "the number of tokens", None)
        if self.encoder is None and any(group.cross for group in self.layers):
            raise Refused("encoder", "a stack that the cross-attention reads", None)
        return self

    @property
    def reads_tokens(self) -> bool:
        """Whether its sequences are tokens (or steps) that it can go on with, and not pictures or sound."""
        return isinstance(self.embedding, Embedding | Trajectory)

    @property
    def decodes(self) -> bool:
        """Whether it goes on token by token: it reads tokens, and no layer lets them see those to come (BERT's do)."""
        return self.reads_tokens and all(getattr(group.mixer, "causal", True) for group in self.layers)

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The main stack and the towers beside it."""
        return (self, *self.towers)

    @property
    def towers(self) -> tuple[Tower, ...]:
        """The stacks beside the main one."""
        return tuple(tower for tower in (self.encoder, self.vision) if tower is not None)
