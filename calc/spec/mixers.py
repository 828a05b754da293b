"""The mixers that a layer may have: one of many kinds, or several of them side by side."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from calc.errors import Refused
from calc.spec.attention import Attention
from calc.spec.band_attention import BandAttention
from calc.spec.block_attention import BlockAttention
from calc.spec.chunk_attention import ChunkAttention
from calc.spec.compressed import CompressedAttention
from calc.spec.delta_net import DeltaNet
from calc.spec.fields import Node
from calc.spec.funnel import FunnelAttention
from calc.spec.gated_bias import GatedBias
from calc.spec.gated_convolution import GatedConvolution
from calc.spec.kda import Kda
from calc.spec.latent import Mla
from calc.spec.linear_attention import LinearAttention
from calc.spec.page import PageAttention
from calc.spec.rg_lru import RgLru
from calc.spec.rwkv4 import Rwkv4
from calc.spec.rwkv7 import Rwkv7
from calc.spec.state_space import Mamba, Mamba2
from calc.spec.windows import WindowAttention


def kind_or(default: str) -> Discriminator:
    """Chooses a class of a union by the field `kind`, which may be left out where it says `default`."""

    def kind(value: Any) -> Any:
        return value.get("kind", default) if isinstance(value, dict) else getattr(value, "kind", None)

    return Discriminator(kind)


_ONE = (
    Annotated[Attention, Tag("attention")]
    | Annotated[BandAttention, Tag("band_attention")]
    | Annotated[BlockAttention, Tag("block_attention")]
    | Annotated[ChunkAttention, Tag("chunk_attention")]
    | Annotated[FunnelAttention, Tag("funnel_attention")]
    | Annotated[GatedBias, Tag("gated_bias")]
    | Annotated[PageAttention, Tag("page_attention")]
    | Annotated[WindowAttention, Tag("window_attention")]
    | Annotated[LinearAttention, Tag("linear_attention")]
    | Annotated[Mla, Tag("mla")]
    | Annotated[CompressedAttention, Tag("compressed_attention")]
    | Annotated[DeltaNet, Tag("delta_net")]
    | Annotated[Kda, Tag("kda")]
    | Annotated[GatedConvolution, Tag("gated_convolution")]
    | Annotated[Mamba, Tag("mamba")]
    | Annotated[Mamba2, Tag("mamba2")]
    | Annotated[RgLru, Tag("rg_lru")]
    | Annotated[Rwkv4, Tag("rwkv4")]
    | Annotated[Rwkv7, Tag("rwkv7")]
)
OneMixer = Annotated[_ONE, kind_or("attention")]


class Branch(Node):
    """One of several mixers that read the same vectors. scale_in, scale_out: what it reads and gives is multiplied with
    (Falcon-H1: Zuo et al. 2025, arXiv:2507.22448)."""

    mixer: OneMixer
    scale_in: float = 1.0
    scale_out: float = 1.0


class Parallel(Node):
    """Mixers side by side in one layer: all read what the layer's norm gives, and their results are added up.

    No two branches are of one kind, since a kind is the name of a branch's weights. A layer's placement may be called
    `parallel` too: that puts the mixer beside the channel mixer.
    """

    kind: Literal["parallel"] = "parallel"
    branches: tuple[Branch, ...] = Field(min_length=2)

    @property
    def causal(self) -> bool:
        """Whether no branch lets a token see those to come."""
        return all(getattr(branch.mixer, "causal", True) for branch in self.branches)

    @model_validator(mode="after")
    def _apart(self) -> Self:
        mixers = [branch.mixer for branch in self.branches]
        # All kinds of attention call their weights so.
        attention = (Attention, BandAttention, BlockAttention, GatedBias, PageAttention, WindowAttention)
        attention = (*attention, ChunkAttention, FunnelAttention, Mla, CompressedAttention)
        names = ["attention" if isinstance(m, attention) else m.kind for m in mixers]
        if len(set(names)) != len(names):
            raise Refused("branches", "mixers of different kinds", ", ".join(names))
        if any(isinstance(m, Attention) and (m.kv == "earlier" or m.buckets is not None) for m in mixers):
            raise Refused("branches", "attention with keys and positions of its own", "those of other layers")
        return self


Mixer = Annotated[_ONE | Annotated[Parallel, Tag("parallel")], kind_or("attention")]
