"""The description of a model: its main stack (`calc.spec.layer_stack`), a head, and the towers beside it.

Structure (gated? tied? which window?) is written here and decides which ops exist; sizes decide how large they are.
A size left None follows from the others as its field says, and does so in formulas too.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, Tag, model_validator

from calc.errors import Refused
from calc.spec.adapters import Bottleneck, Lora, Prefix, Prompt
from calc.spec.assumption import DefaultTaken
from calc.spec.audio import Frames
from calc.spec.contrast import Contrast
from calc.spec.denoising import Latents
from calc.spec.detection import ResNet
from calc.spec.fields import NONE_BY_FALSE, Dim
from calc.spec.fronts import Embedding
from calc.spec.heads import Head
from calc.spec.layer_stack import Stack
from calc.spec.layers import LayerGroup, Mtp
from calc.spec.mixers import kind_or
from calc.spec.mobile_net import MobileNet
from calc.spec.patches import Patches
from calc.spec.projector import Projector
from calc.spec.restored import Restored
from calc.spec.shipped import Shipped
from calc.spec.skipped import SkippedLayers
from calc.spec.speech import Speech
from calc.spec.tiles import Tiles
from calc.spec.trajectory import Trajectory

Adapter = Annotated[
    Annotated[Lora, Tag("lora")]
    | Annotated[Prefix, Tag("prefix")]
    | Annotated[Prompt, Tag("prompt")]
    | Annotated[Bottleneck, Tag("bottleneck")],
    kind_or("lora"),
]

_OF_PICTURES = (Latents, Patches, ResNet, Restored, Tiles)
"""Fronts that read pixels."""


class Tower(Stack):
    """A stack beside the main one: the encoder that a decoder reads, or the vision or audio tower of a language model.

    projectors: what brings the tower's vectors to the width of the stack
    that reads them. clipped: dense layers within the layers clamp what they read and give to bounds that were measured
    elsewhere and are no parameters (Gemma 4).
    unread: how many of the last layers nothing reads: projectors read what the layer before them gives, ahead of the
    final norm. They run all the same, and the norm behind them does (LLaVA); None: projectors read what leaves it.
    among_tokens: how the main stack takes a picture's vectors among its tokens: like other `tokens`; `together`, where
    those of one picture see one another ahead too (Gemma 3); `in-plane`, where its rotary positions follow their rows
    and columns (Qwen3-VL). No count depends on it. reader: whose tokens they are, the main stack's or the encoder's
    (T5Gemma 2).
    """

    name: Literal["encoder", "vision", "audio", "patcher", "speech_encoder"]
    projectors: tuple[Projector, ...] = ()
    clipped: bool = False
    unread: int | None = Field(default=None, ge=0, le=10**5)
    among_tokens: Literal["tokens", "together", "in-plane"] = "tokens"
    reader: Literal["main", "encoder"] = "main"

    @property
    def reads_pictures(self) -> bool:
        """Whether it is a vision tower, and not an encoder of what a decoder answers to."""
        return self.name == "vision"

    @model_validator(mode="after")
    def _pools_or_projects(self) -> Self:
        if self.pool is not None and (not self.reads_pictures or self.projectors):
            raise Refused("pool", "none, but behind a vision tower without projectors", self.name)
        return self

    @model_validator(mode="after")
    def _one_width(self) -> Self:
        if any(group.merge is not None for group in self.layers):
            raise Refused("merge", "none, but in a main stack: of a tower's stages no reader is described", "one")
        if any(group.halved is not None or group.upsampled for group in self.layers):
            raise Refused("halved", "none, but in a main stack: of fewer vectors no reader is described", "some")
        return self

    @model_validator(mode="after")
    def _some_layers_are_read(self) -> Self:
        if self.unread is None:
            return self
        if len(self.layers) > 1 or not self.projectors or self.heads or any(each.depths for each in self.projectors):
            raise Refused("unread", "none, but in a tower of layers alike with one projector behind them", self.unread)
        if isinstance(count := next(iter(self.layers)).count, int) and self.unread >= count:
            raise Refused("unread", f"fewer than the {count} layers", self.unread)
        return self

    @model_validator(mode="after")
    def _reads_tiles(self) -> Self:
        if not isinstance(self.embedding, Tiles):
            return self
        if self.name != "encoder":
            raise Refused("embedding", "another kind, since tiles are read by an encoder", self.embedding.kind)
        if len(self.projectors) != 1:
            raise Refused("stages", "one projector behind them", len(self.projectors))
        return self

    def group(self, outer: str) -> str:
        """The name of the tower, which tells its sizes from the main stack's."""
        return self.name


class ModelSpec(Stack):
    """A whole model; its own fields describe the main stack, the one that ends in `head`.

    vocab_size: None for a model without tokens. max_seq_len: the longest context it is made for, in tokens; None where
    it has no bound of its own. encoder: the stack whose result `cross` attends to. vision, audio: towers whose
    vectors take the places of tokens; the latter reads each sequence's sound in windows of its front's n_frames, or
    where it has none, as one whose vectors are filled up (`Markers`).
    patcher: reads the tokens ahead of all else, to say where patches of them end, and is not trained (BLT).
    speech_encoder: hears in place of the encoder, and does not run where text is read; speech: as it says there (both
    SeamlessM4T). eyes, skipped: as they say there.
    contrast: what compares the vectors of texts with those of pictures. mtp: modules for further tokens, which only a
    Load that asks counts. shipped: how its checkpoint is published, where its matrices are packed; nothing else depends
    on it.
    notes: what was assumed while the description was read.
    """

    name: str = Field(default="model", pattern=r"^[^\x00-\x1f\x7f-\x9f]{1,200}$")
    family: str = "custom"
    vocab_size: Dim | None = None
    max_seq_len: int | None = Field(default=None, gt=0, le=2**31)
    head: Annotated[Head | None, NONE_BY_FALSE] = Head()
    encoder: Tower | None = None
    vision: Tower | None = None
    audio: Tower | None = None
    patcher: Tower | None = None
    speech_encoder: Tower | None = None
    speech: Speech | None = None
    eyes: MobileNet | None = None
    skipped: SkippedLayers | None = None
    contrast: Contrast | None = None
    adapter: Adapter | None = None
    mtp: Mtp | None = None
    shipped: Shipped | None = None
    notes: tuple[str | DefaultTaken, ...] = ()

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.vocab_size is None and (self.head is not None or isinstance(self.embedding, Embedding)):
            raise Refused("vocab_size", "the number of tokens", None)
        if self.contrast is not None and self.vision is None:
            raise Refused("vision", "a tower whose vectors those of texts are compared with", None)
        if self.audio is not None and getattr(self.audio.embedding, "n_frames", None) is None and not self._fills:
            raise Refused("audio", "a tower that reads windows of so many frames (n_frames)", "none")
        if isinstance(self.embedding, Restored) and not masks(self.encoder):
            raise Refused("encoder", "a stack that reads patches of which some are masked, behind one vector", None)
        if self.patcher is not None and all(group.patched is None for group in self.layers):
            raise Refused("patcher", "none, unless tokens become patches", "some")
        of_text = isinstance(getattr(self.encoder, "embedding", None), Embedding)
        if self.speech_encoder is not None and not of_text:
            raise Refused("speech_encoder", "none, but in place of an encoder of text that is there too", "one")
        if self.encoder is None and any(group.cross or _merged(group) for group in self.layers):
            raise Refused("encoder", "a stack that the cross-attention reads", None)
        if any(_merged(group) for tower in self.towers for group in tower.layers):
            raise Refused("merged", "false in a tower, which has no encoder of its own", True)
        by_encoder = self.vision is not None and self.vision.reader == "encoder"
        if by_encoder and not isinstance(getattr(self.encoder, "embedding", None), Embedding):
            raise Refused("vision.reader", "main, without an encoder of text", "encoder")
        return self

    @property
    def _fills(self) -> bool:
        """Whether what an audio tower gives is filled up to a length of its own."""
        markers = getattr(self.embedding, "markers", ())
        return any(each.name == "sounds" and each.n_vectors is not None for each in markers)

    @property
    def reads_tokens(self) -> bool:
        """Whether its sequences are tokens (or steps) that it can go on with, and not pictures or sound."""
        return isinstance(self.embedding, Embedding | Trajectory)

    @property
    def has_own_length(self) -> bool:
        """Whether what it reads, as a picture or sound, has a length of its own, whatever is asked."""
        return not self.reads_tokens and getattr(self.embedding, "n_frames", 1) is not None

    @property
    def reads_sound(self) -> bool:
        """Whether it reads sound of a length that it is made for, unless frames are asked for."""
        return getattr(self.embedding, "n_frames", None) is not None

    @property
    def takes_source(self) -> bool:
        """Whether the length of a text or sound may be told that an encoder, an audio tower or its front reads."""
        fronts = (self.embedding, *(tower.embedding for tower in (self.encoder, self.audio) if tower is not None))
        heard = any(isinstance(front, Frames) for front in fronts)
        return heard or isinstance(getattr(self.encoder, "embedding", None), Embedding)

    @property
    def unit(self) -> str:
        """What its sequences are counted in."""
        return "tokens" if self.reads_tokens else "vectors"

    @property
    def takes_pictures(self) -> bool:
        """Whether pictures may go in beside its text: to a vision tower or eyes, or behind the text of each page."""
        return self.vision is not None or self.eyes is not None or getattr(self.embedding, "picture", None) is not None

    @property
    def is_of_pictures(self) -> bool:
        """Whether each of its sequences is, or answers to, a picture: as many as there are sequences."""
        fronts = (self.embedding, self.embedding if self.encoder is None else self.encoder.embedding)
        return not self.takes_pictures and any(isinstance(front, _OF_PICTURES) for front in fronts)

    @property
    def decodes(self) -> bool:
        """Whether it goes on token by token: it reads tokens, and no layer lets them see those to come (BERT's do)."""
        causal = all(getattr(mixer, "causal", True) for group in self.layers for mixer in group.mixers)
        # Which patches a new byte changes follows from the text.
        return self.reads_tokens and causal and all(group.patched is None for group in self.layers)

    @property
    def shortest(self) -> int:
        """A length at which all halvings of its texts happen; 1 without any."""
        halvings = sum(group.halved is not None for group in self.layers)
        return 1 + 2**halvings if halvings else 1

    @property
    def why_whole(self) -> str:
        """What a model does that does not go on token by token."""
        if any(group.patched is not None for group in self.layers):
            return "makes patches of its bytes, of which it is not described what a new one changes"
        return "generates no tokens"

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The main stack and the towers beside it."""
        return (self, *self.towers)

    @property
    def towers(self) -> tuple[Tower, ...]:
        """The stacks beside the main one."""
        every = (self.encoder, self.vision, self.audio, self.patcher, self.speech_encoder)
        return tuple(tower for tower in every if tower is not None)


def _merged(group: LayerGroup) -> bool:
    """Whether its attention reads the encoder with the matrices that read its own tokens."""
    return getattr(group.mixer, "merged", False)


def masks(encoder: Tower | None) -> bool:
    """Whether the encoder sees some of a picture's patches alone, behind one learned vector."""
    front = None if encoder is None else encoder.embedding
    return isinstance(front, Patches) and front.masked is not None and front.n_special == 1


def check_model(value: object) -> None:
    """Errors: Refused where `value` is no model's description, such as a model's name."""
    if not isinstance(value, ModelSpec):
        raise Refused("model", "a model's description, as calc.load_model returns", value)
