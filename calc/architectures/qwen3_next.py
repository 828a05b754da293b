"""Qwen3-Next (Qwen 2025): three gated delta nets for each gated attention, experts in every layer.

Defaults as in transformers' Qwen3NextConfig. The pieces also build Qwen3.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calc.architectures.common import linear_kinds, stack
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, decoder, rms_norm
from calc.architectures.qwen2_moe import channel_kinds, channel_of
from calc.spec import Attention, DeltaNet, LayerGroup, Mlp, ModelSpec, Moe, Norm, QkNorm


def spec(cfg: Config) -> ModelSpec:
    """Every `full_attention_interval`-th layer attends to all tokens, or those that `layer_types` names."""
    channels = channel_kinds(cfg, cfg.layers("num_hidden_layers"))
    made = channel_of(cfg, channels, shared=True, renormalize=True)
    cfg.only("use_sliding_window", False, why="no layer of this family has a window")
    layers = hybrid(cfg, delta_net(cfg, fused=True), channels, made, kv_absent=2)
    return decoder(cfg, layers, max_seq_len=32768, norm=offset_norm(cfg))


def offset_norm(cfg: Config) -> Norm:
    """RMSNorm that multiplies with one plus its weight."""
    return rms_norm(cfg, unit_offset=True)


def hybrid(
    cfg: Config, delta: DeltaNet, channels: Sequence[str], made: Mapping[str, Mlp | Moe], *, kv_absent: int
) -> dict[str, Any]:
    """`layers` and `schedule` of layers that run a delta net or gated attention, then the channel mixer of `channels`.

    kv_absent: key and value heads of the attention where the key is absent.
    """
    mixers: dict[str, Attention | DeltaNet] = {"linear": delta, "full": gated_attention(cfg, kv_absent)}

    def layer(kind: str) -> LayerGroup:
        mixer, _, channel = kind.partition("_")
        channel = channel or channels[0]
        return LayerGroup(count=1, mixer=mixers[mixer], channel=made[channel], norm=offset_norm(cfg))

    words = mixer_kinds(cfg, len(channels))
    alike = len(set(channels)) == 1
    return stack([word if alike else f"{word}_{each}" for word, each in zip(words, channels, strict=True)], layer)


def mixer_kinds(cfg: Config, n_layers: int) -> Sequence[str]:
    """`linear` or `full` for each layer."""
    period = cfg.size("full_attention_interval", absent=4)
    return linear_kinds(cfg, n_layers) or ["linear" if (i + 1) % period else "full" for i in range(n_layers)]


def gated_attention(cfg: Config, kv_absent: int) -> Attention:
    """A norm on each query and key head, a quarter of each head rotated, and a sigmoid gate on the result."""
    cfg.only("attn_output_gate", True, why="the query projection is always doubled for the gate")
    bias = cfg.flag("attention_bias", absent=False)
    return attention(
        cfg,
        kv_absent=kv_absent,
        kv_null=REFUSE,
        d_head_absent=256,
        fraction=0.25,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=QkNorm(norm=offset_norm(cfg)),
        gate=True,
    )


def delta_net(cfg: Config, *, fused: bool) -> DeltaNet:
    """The gated delta net of a config's `linear_*` sizes."""
    cfg.only("hidden_act", "silu", "swish", why="what this family's convolutions and gates run through")
    return DeltaNet(
        n_key_heads=cfg.size("linear_num_key_heads", absent=16),
        n_value_heads=cfg.size("linear_num_value_heads", absent=32),
        d_key=cfg.size("linear_key_head_dim", absent=128),
        d_value=cfg.size("linear_value_head_dim", absent=128),
        d_conv=cfg.size("linear_conv_kernel_dim", absent=4),
        fused=fused,
        norm=rms_norm(cfg),
    )
