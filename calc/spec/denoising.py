"""Denoisers: latents of pictures, perhaps beside the vectors of a text, through layers modulated by their conditioning.

Source: Peebles and Xie 2023 (DiT, arXiv:2212.09748, section 3.2); Esser et al. 2024 (Stable Diffusion 3,
arXiv:2403.03206, section 4); diffusers 0.42, models/transformers.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.channels import Activation
from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm


class Conditioning(Node):
    """The vector of each picture that scales, shifts and gates what layers compute: a sum of dense layers in pairs.

    d_time: sinusoids of the step, and with `guidance` as many of how strongly a text guides (FLUX.1-dev).
    d_pooled: width of one vector of the text. n_classes: rows of a table of classes, with that of none.
    """

    symbols: ClassVar[dict[str, str]] = {"n_classes": "n_class_rows"}
    d_time: Dim = 256
    guidance: bool = False
    d_pooled: Dim | None = None
    n_classes: Dim | None = None


class Latents(Node):
    """A picture's latents, height x width of `channels` values, cut into square patches.

    pixels: along a side of one latent, by which a Load's `image`, in pixels, is divided.
    Ahead of the patches stand n_text vectors of a text, d_text wide before their projection; None: there is none.
    packed: each patch comes as one vector, which a dense matrix reads. placed: sinusoids of places are added to
    patches, as a table that is no parameter. n_side: the most patches along a side that it has; None: it is made anew.
    conditioning: that of all layers; None: each makes its own.
    """

    symbols: ClassVar[dict[str, str]] = {
        "height": "latent_height",
        "width": "latent_width",
        "channels": "latent_channels",
    }
    kind: Literal["latents"] = "latents"
    height: Dim
    width: Dim
    pixels: int = Field(gt=0, le=2**10)
    patch: Dim = 1
    channels: Dim
    d_text: Dim | None = None
    n_text: Dim | None = None
    packed: bool = False
    placed: bool = False
    n_side: int | None = Field(default=None, gt=0, le=2**16)
    conditioning: Conditioning | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.d_text is None) is not (self.n_text is None):
            raise Refused("n_text", "a number of vectors beside d_text, and none without", self.n_text)
        if self.packed and self.patch != 1:
            raise Refused("patch", "1 where patches come packed", self.patch)
        return self


class Denoising(Node):
    """A layer of a denoiser: norms without weights, scaled and shifted by its conditioning, and gates on its blocks.

    streams: `picture`, patches alone (DiT). `beside`: text and patches, each with weights of its own, see one another
    in one attention; `text_ends`: the same where nothing reads what becomes of the text (Stable Diffusion 3). `joined`:
    text and patches in one, attention beside the feed-forward block, and one matrix behind both (FLUX.1).
    d_ff: None means 4 * d_model. bias: of queries, keys and values of a stream alone; of two, all have one. qk_norm: on
    each head of queries and keys. axes: they turn by their places, so many of a head's values by each of three numbers
    (none, row, column). dual: patches attend to themselves once more (Stable Diffusion 3.5).
    conditioning: of this layer alone (DiT, as diffusers has it).
    """

    kind: Literal["denoising"] = "denoising"
    n_heads: Dim
    streams: Literal["picture", "beside", "text_ends", "joined"] = "picture"
    d_ff: Dim | None = None
    bias: bool = True
    qk_norm: Norm | None = None
    axes: tuple[int, ...] | None = None
    dual: bool = False
    activation: Activation = "gelu_tanh"
    eps: float = Field(default=1e-6, ge=0)
    conditioning: Conditioning | None = None

    @model_validator(mode="after")
    def _dual_beside(self) -> Self:
        if self.dual and self.streams not in ("beside", "text_ends"):
            raise Refused("dual", "false, unless a text stands beside the picture", True)
        return self


class Denoised(Node):
    """Behind the layers: a norm of the patches that the conditioning scales and shifts, and a matrix to d_out values.

    remakes_conditioning: it is that of the first layer, made once more, and not that of all (DiT, as diffusers has it).
    """

    symbols: ClassVar[dict[str, str]] = {"d_out": "d_denoised"}
    d_out: Dim
    remakes_conditioning: bool = False
