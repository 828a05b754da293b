"""Layers: a mixer and a channel mixer, the norms around them, and how often they repeat."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, Tag, model_validator

from calc.errors import Refused
from calc.spec.attention import Attention
from calc.spec.byte_patches import PatchAttention, Patched
from calc.spec.channels import Mlp
from calc.spec.conformer import ConvolutionModule, Shortened, SideConvolution
from calc.spec.denoising import Denoising
from calc.spec.experts import Moe
from calc.spec.fields import Count, Dim, Node
from calc.spec.funnel import Halved
from calc.spec.mixers import Mixer, OneMixer, Parallel, kind_or
from calc.spec.ngrams import NGrams
from calc.spec.norm import Norm
from calc.spec.residual import Residual
from calc.spec.retrieved import RetrievedExperts
from calc.spec.shared_block import SharedBlock
from calc.spec.windows import Merge, PooledAttention

OF_CROSS = (
    *("n_heads", "n_kv_heads", "d_head", "d_value", "qkv_bias", "k_bias", "out_bias", "causal", "position", "rope"),
    *("scale", "by_depth", "softcap", "softmax", "qk_norm"),
)
"""Fields of Attention that one over a source may have; it sees all of it and turns nothing, whatever causal and rope
say."""

Placement = Literal["pre", "post", "output", "sandwich", "parallel", "parallel-two-norms"]


Channel = Annotated[
    Annotated[Mlp, Tag("mlp")] | Annotated[Moe, Tag("moe")] | Annotated[RetrievedExperts, Tag("retrieved")],
    kind_or("mlp"),
]


class LayerGroup(Node):
    """`count` layers that are alike in structure and size.

    A layer runs its mixer, then attention over an encoder (`cross`), then its channel mixer; any of them may be absent.
    placement: where the norms stand. `pre`: x + f(norm(x)). `post`: norm(x + f(x)). `output`: x + norm(f(x)) (OLMo 2).
    `sandwich`: x + norm(f(norm(x))) (Gemma 2). `parallel`: x + mixer(norm(x)) + channel(norm(x)), one norm for both;
    `parallel-two-norms`: each has its own (GPT-NeoX).
    after: which blocks have the norm behind them that `sandwich` puts there; `channel`: the channel mixer (A.X K1).
    shared: all layers use one set of weights (ALBERT). shared_block: blocks ahead of the mixer whose weights all layers
    use, beside what each has of its own (Zamba2). residual_scale: what each block's result is multiplied with
    before it is added (Granite). residual: as it says there; None: what a block gives is added to what it read.
    Conformer (Gulati et al. 2020): macaron: a channel mixer like `channel` comes first too, and both are added by half.
    macaron_share: that part in place of half. convolution: comes after attention. beside: as it says there. out_norm: a
    norm on what leaves the layer.
    cut: what each block reads ahead of its norm, gives ahead of the norm behind it, and what leaves the layer ahead of
    out_norm, is cut to an interval from -cut to cut; ahead of the convolution, which has the norm of its own there and
    none behind it, steps of padding become zeros (Gemma 3n's ears).
    residual_dropout: training may drop part of the embedding's and of every block's result (GPT-2, BERT; the families
    that began with Llama drop nothing there). outer_dropout: what of it stands outside the layers, on the embedding's
    result, on that and the final norm's (`both`: T5), or nothing (OPT).
    out_scale: what leaves the layer is multiplied with one number, a buffer and no parameter (Gemma 4).
    block_scale: what each block gives is multiplied, value by value, with a learned vector before it is added
    (LayerScale: Touvron et al. 2021, arXiv:2103.17239, equation 5).
    kept_scale: what each block's result is added to is multiplied so, with a vector of its own (Doge). shifted: ahead
    of both products a learned vector is added (ZAYA1).
    gates: what each block gives is multiplied with the tanh of one learned number before it is added (Flamingo: Alayrac
    et al. 2022, arXiv:2204.14198, section 2.2; Llama 3.2 Vision).
    laurel: rank of two matrices whose normed product is added to what the mixer read, and this to the stream, which is
    then divided by sqrt(2) (learned augmented residuals: Menghani et al. 2024, arXiv:2411.07501; Gemma 3n).
    patched: ahead of these layers the bytes of each patch become one vector, as it says there; unpatched: ahead of them
    stand the bytes' vectors again, and so many of each patch beside them, which `of_patches` reads ahead of each
    layer's mixer (BLT).
    halved: ahead of these layers vectors of neighbouring tokens become one, as it says there; upsampled: ahead of them
    each is repeated until there are as many as ahead of the first halving, and added to what stood there (Funnel
    Transformer). again: they have the weights of the group before them, whose layers share one set.
    merge: ahead of these layers vectors of neighbouring patches become fewer and wider ones, as it says there (Swin).
    shortened: ahead of these layers the sequence becomes shorter, as it says there (SeamlessM4T).
    denoising: what the layer is in place of all else, of a denoiser (DiT, FLUX.1).
    ngrams: vectors of the last tokens together are added to the streams ahead of the blocks (Qwen4).
    first_norm: False where the first block reads its input as it is (the first layer of FT-Transformer, before which
    nothing has been added up).
    """

    symbols: ClassVar[dict[str, str]] = {"count": "n_layers", "laurel": "laurel_rank"}
    name: str = Field(default="layers", pattern=r"^[a-z][a-z0-9_]*$")
    count: Count
    shared_block: SharedBlock | None = None
    mixer: Mixer | None = None
    cross: Attention | None = None
    channel: Channel | None = None
    macaron: bool = False
    macaron_share: float = 0.5
    convolution: ConvolutionModule | None = None
    cut: float | None = Field(default=None, gt=0)
    beside: SideConvolution | None = None
    out_norm: bool = False
    out_scale: bool = False
    block_scale: bool = False
    kept_scale: bool = False
    shifted: bool = False
    gates: bool = False
    first_norm: bool = True
    laurel: Dim | None = None
    merge: Merge | PooledAttention | None = None
    shortened: Shortened | None = None
    halved: Halved | None = None
    upsampled: bool = False
    again: bool = False
    patched: Patched | None = None
    unpatched: int | None = Field(default=None, gt=0, le=1024)
    of_patches: PatchAttention | None = None
    ngrams: NGrams | None = None
    denoising: Denoising | None = None
    norm: Norm = Norm()
    placement: Placement = "pre"
    after: Literal["all", "channel"] = "all"
    shared: bool = False
    residual_scale: float = 1.0
    residual: Residual | None = None
    residual_dropout: bool = False
    outer_dropout: Literal["embedding", "both", "none"] = "embedding"

    def group(self, outer: str) -> str:
        """The name that tells this group's sizes from others': its own, with its tower's before it."""
        if not outer:
            return self.name
        return outer if self.name == "layers" else f"{outer}_{self.name}"

    @property
    def mixers(self) -> tuple[OneMixer, ...]:
        """What mixes tokens in one layer: nothing, one mixer, or the branches of several side by side."""
        if self.mixer is None:
            return ()
        return tuple(b.mixer for b in self.mixer.branches) if isinstance(self.mixer, Parallel) else (self.mixer,)

    @model_validator(mode="after")
    def _plain_cross(self) -> Self:
        for name, field in type(self.cross).model_fields.items() if self.cross is not None else ():
            value = getattr(self.cross, name)
            if name not in OF_CROSS and value != field.default:
                raise Refused(
                    f"cross.{name}", "the default, since attention over a source has nothing of the kind", value
                )
        if self.cross is not None and self.cross.qk_norm is not None and self.cross.qk_norm.turned:
            raise Refused("cross.qk_norm.turned", "false, since nothing turns", True)
        if self.cross is not None and self.cross.position not in ("rope", "added", "none"):
            raise Refused("cross.position", "added or none, since a source has no distances", self.cross.position)
        return self

    @model_validator(mode="after")
    def _parallel(self) -> Self:
        if self.placement.startswith("parallel") and (self.mixer is None or self.channel is None or self.cross):
            raise Refused("placement", "pre or post, without a mixer beside a channel mixer", self.placement)
        if self.placement.startswith("parallel") and (self.macaron or self.convolution):
            raise Refused("placement", "pre or post, in a layer with further blocks", self.placement)
        if self.after != "all" and (self.placement != "sandwich" or self.channel is None):
            raise Refused("after", "all, unless norms stand on both sides of a channel mixer", self.after)
        if self.residual is not None and self.placement != "pre":
            raise Refused("residual", "none, unless norms stand before the blocks", "kept and added parts")
        if self.block_scale and (self.placement != "pre" or self.macaron):
            raise Refused("block_scale", "false, unless norms stand before the blocks, of which each is one", True)
        if self.norm.kind == "batchnorm" and (self.placement != "pre" or self.macaron or self.out_norm or self.laurel):
            # What such a norm gives lies in memory otherwise than the stream.
            raise Refused("norm.kind", "layernorm or rmsnorm, unless norms stand before the blocks alone", "batchnorm")
        if self.kept_scale and (self.placement != "pre" or self.macaron or self.residual is not None):
            raise Refused("kept_scale", "false, unless norms stand before the blocks, whose results are added", True)
        if self.shifted and not (self.block_scale and self.kept_scale):
            raise Refused("shifted", "false without block_scale and kept_scale, ahead of which it stands", True)
        if self.of_patches is not None and (self.placement != "pre" or self.mixer is None or self.macaron):
            raise Refused("of_patches", "none, unless norms stand before the blocks, a mixer first", "some")
        if self.gates and (self.placement != "pre" or self.macaron):
            raise Refused("gates", "false, unless norms stand before the blocks, of which each is one", True)
        if not self.first_norm and self.placement != "pre":
            raise Refused("first_norm", "true, unless norms stand before the blocks", False)
        if self.shared_block is not None and (self.mixer is None or self.placement != "pre" or self.macaron):
            raise Refused("shared_block", "none, unless a mixer comes first, with a norm before it", "one")
        if self.laurel is not None and (self.mixer is None or self.placement not in ("pre", "sandwich")):
            raise Refused("laurel", "null, unless a mixer has a norm before it", self.laurel)
        if self.shared_block is not None and (self.shared or not self.first_norm):
            raise Refused("shared_block", "none where layers share all weights, or a mixer has no norm", "one")
        if self.beside is not None and self.beside.kernel % 2 == 0:
            raise Refused("beside.kernel", "an odd number of tokens, as many on both sides", self.beside.kernel)
        if self.cut is not None and (self.placement != "sandwich" or self.after != "all" or not self.out_norm):
            raise Refused("cut", "null, unless norms stand on both sides of blocks, and behind the layer", self.cut)
        if (self.cut is None) != (getattr(self.convolution, "cut", None) is None) and self.convolution is not None:
            raise Refused("convolution.cut", "given where the layer's is, and nowhere else", self.convolution.cut)
        if self.macaron and self.channel is None:
            raise Refused("macaron", "false without a channel mixer", True)
        if self.macaron and isinstance(self.channel, Mlp) and self.channel.shift:
            raise Refused("macaron", "false beside a channel mixer that keeps a token (shift)", True)
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

    @model_validator(mode="after")
    def _routes_by_itself(self) -> Self:
        if isinstance(self.channel, Moe) and self.channel.deep_router is not None:
            raise Refused("deep_router", "none in modules that predict further tokens", "one")
        return self

    def group(self, outer: str) -> str:
        """`mtp`, where its sizes differ from the layers'."""
        return "mtp"
