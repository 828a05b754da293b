"""LFM2 (Liquid AI 2025): gated short convolutions with a few layers of attention, a gated MLP in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calc.architectures.common import crossed_stack
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, decoder
from calc.spec import Attention, GatedConvolution, Head, LayerGroup, Mlp, ModelSpec, Moe, Norm, QkNorm

_WORDS = {"full_attention": "attention", "conv": "convolution"}


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Lfm2Config: no convolution at all where neither layer_types nor full_attn_idxs is
    there."""
    n_layers = cfg.layers("num_hidden_layers")
    attends = cfg.numbers("full_attn_idxs", absent=None, null=None)
    rule = ["attention" if attends is None or i in attends else "convolution" for i in range(n_layers)]
    mlp = Mlp(d_ff=_width(cfg), gated=True, activation="silu")
    return hybrid(cfg, mixer_kinds(cfg, n_layers) or rule, ["mlp"] * n_layers, {"mlp": mlp})


def mixer_kinds(cfg: Config, n_layers: int, *, absent: Any = None) -> tuple[str, ...] | None:
    """`attention` or `convolution` for each layer as layer_types says. absent: what it means that there is none."""
    words = cfg.words("layer_types", among=tuple(_WORDS), length=n_layers, absent=absent, null=absent)
    return None if words is None else tuple(_WORDS[word] for word in words)


def hybrid(
    cfg: Config, mixers: Sequence[str], channels: Sequence[str], made: Mapping[str, Mlp | Moe | None]
) -> ModelSpec:
    """Layer i has a mixer of kind mixers[i] and the channel mixer that `made` has for channels[i]."""
    norm = Norm(eps=cfg.number("norm_eps", absent=1e-5))
    of_kind: dict[str, Attention | GatedConvolution] = {
        "attention": attention(cfg, kv_absent=8, kv_null=REFUSE, qk_norm=QkNorm(norm=norm), theta=1_000_000.0),
        "convolution": GatedConvolution(
            d_conv=cfg.size("conv_L_cache", absent=3), bias=cfg.flag("conv_bias", absent=False)
        ),
    }

    def layer(mixer: str, channel: str) -> LayerGroup:
        return LayerGroup(count=1, mixer=of_kind[mixer], channel=made[channel], norm=norm)

    found = decoder(cfg, crossed_stack(mixers, channels, layer), max_seq_len=128000, norm=norm)
    tied = cfg.flag("tie_embedding", absent=cfg.flag("tie_word_embeddings", absent=True))
    return found.model_copy(update={"head": Head(tied=tied)})


def _width(cfg: Config) -> int:
    """Two thirds of block_ff_dim, or where that is absent of intermediate_size, times a factor and rounded up, unless
    `block_auto_adjust_ff_dim` is false."""
    usual = cfg.size("intermediate_size", absent=None)
    d_ff = cfg.size("block_ff_dim", absent=REFUSE if usual is None else usual)
    factor = cfg.number("block_ffn_dim_multiplier", absent=1.0)
    multiple = cfg.size("block_multiple_of", absent=256)
    if not cfg.flag("block_auto_adjust_ff_dim", absent=True):
        return d_ff
    return -(-int(factor * int(2 * d_ff / 3)) // multiple) * multiple
