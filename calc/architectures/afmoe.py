"""Trinity (Arcee 2025): sandwiched norms, gated attention, three sliding layers to one full layer without positions,
experts behind dense first layers."""

from __future__ import annotations

import math

from calc.architectures.common import activation, alternating, crossed_stack, layer_kinds, window_of
from calc.architectures.config import Config
from calc.architectures.llama import attention, decoder, dense_or_moe, rms_norm
from calc.spec import LayerGroup, ModelSpec, Moe, QkNorm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' AfmoeConfig: heads 128 wide, window 1024, one dense layer, two shared experts. What
    corrects the choice of experts is a frozen parameter there."""
    cfg.only("attention_bias", False, why="queries would have a bias and their gate none")
    n_layers = cfg.layers("num_hidden_layers")
    norm = rms_norm(cfg, 1e-5, wide=True)
    mixer = attention(cfg, d_head_absent=128, qk_norm=QkNorm(norm=norm), gate=True)
    window = cfg.size("sliding_window", absent=1024, null=None)
    period = cfg.size("global_attn_every_n_layers", absent=4)
    n_dense = cfg.count("num_dense_layers", absent=1)
    kinds = ["dense" if i < n_dense else "moe" for i in range(n_layers)]
    channels = dense_or_moe(cfg, kinds, _experts(cfg))

    def layer(attention_kind: str, kind: str) -> LayerGroup:
        position = "rope" if attention_kind == "sliding" else "none"
        own = mixer.model_copy(update={"window": window_of(attention_kind, window), "position": position})
        return LayerGroup(count=1, mixer=own, channel=channels[kind], norm=norm, placement="sandwich")

    layers = crossed_stack(layer_kinds(cfg, alternating(n_layers, period)), kinds, layer)
    scaled = cfg.flag("mup_enabled", absent=False, null=False)
    embed_scale = math.sqrt(cfg.size("hidden_size")) if scaled else 1.0
    return decoder(cfg, layers, max_seq_len=16384, norm=norm, embed_scale=embed_scale)


def _experts(cfg: Config) -> Moe:
    d_expert = cfg.size("moe_intermediate_size")
    n_shared = cfg.count("num_shared_experts", absent=2)
    return Moe(
        n_experts=cfg.size("num_experts"),
        top_k=cfg.size("num_experts_per_tok", absent=6),
        d_expert=d_expert,
        d_shared=n_shared * d_expert or None,
        activation=activation(cfg, "hidden_act", absent="silu"),
        scoring="sigmoid",
        correction=True,
        frozen_correction=True,
        scale=cfg.number("route_scale", absent=1.0),
    )
