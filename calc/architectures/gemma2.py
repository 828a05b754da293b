"""Gemma 2 (arXiv:2408.00118): norms before and after each block, soft-capped scores, every other layer sliding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calc.architectures.common import activation, alternating, layer_kinds, sliding_stack
from calc.architectures.config import Config
from calc.architectures.gemma import gemma_attention
from calc.architectures.llama import decoder, rms_norm
from calc.spec import Attention, Mlp, ModelSpec, Placement


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Gemma2Config: 4 key-value heads, window 4096, scores capped at 50, tied."""
    _, layers = capped_layers(cfg)
    return decoder(cfg, layers, max_seq_len=8192, tied=True, **ends(cfg, softcap=30.0))


def capped_layers(cfg: Config, placement: Placement = "sandwich") -> tuple[Attention, dict[str, Any]]:
    """The attention, whose scores are capped, and layers of it, of which every other one slides."""
    softcap = cfg.number("attn_logit_softcapping", absent=50.0, null=None)
    mixer = gemma_attention(cfg, kv_absent=4, softcap=softcap, scale=query_scale(cfg))
    cfg.multiple("hidden_size", cfg.size("hidden_size"), "num_attention_heads", mixer.n_heads)
    kinds = layer_kinds(cfg, alternating(cfg.layers("num_hidden_layers"), 2))
    return mixer, sandwich(cfg, mixer, kinds, placement=placement)


def ends(cfg: Config, softcap: float | None) -> dict[str, Any]:
    """What is around the layers: scaled tokens, the norm behind, capped logits. softcap: where the key is absent."""
    return {
        "norm": rms_norm(cfg, unit_offset=True),
        "embed_scale": cfg.size("hidden_size") ** 0.5,
        "logit_softcap": cfg.number("final_logit_softcapping", absent=softcap, null=None),
    }


def query_scale(cfg: Config) -> float:
    """What scores are multiplied with: 1 / sqrt(query_pre_attn_scalar)."""
    return cfg.size("query_pre_attn_scalar", absent=256) ** -0.5


def sandwich(
    cfg: Config,
    mixer: Attention,
    kinds: Sequence[str],
    own: Callable[[str], dict[str, Any]] = lambda kind: {},
    placement: Placement = "sandwich",
) -> dict[str, Any]:
    """Layers with four norms each, unless `placement` says otherwise, the sliding ones of window `sliding_window`.

    own: as in `sliding_stack`.
    """
    window = cfg.size("sliding_window", absent=4096, null=None)
    channel = Mlp(
        d_ff=cfg.size("intermediate_size"),
        gated=True,
        activation=activation(cfg, "hidden_activation", absent="gelu_tanh"),
    )
    norm = rms_norm(cfg, unit_offset=True)
    return sliding_stack(kinds, mixer, window, own, channel=channel, norm=norm, placement=placement)
