"""MiniCPM3 (OpenBMB 2024): a dense model with latent attention, and MiniCPM's scaled embedding and residuals."""

from __future__ import annotations

import math

from calc.architectures.config import Config
from calc.architectures.deepseek_v3 import latent_attention
from calc.architectures.llama import decoder, gated_mlp, rms_norm
from calc.spec import LayerGroup, ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' MiniCPM3Config: queries from a latent of 768 unless `q_lora_rank` is null, values as
    wide as hidden_size / num_attention_heads where `v_head_dim` is absent or null, tied."""
    cfg.only("mlp_bias", False, why="the published model has none")
    n_layers, d_model = cfg.layers("num_hidden_layers"), cfg.size("hidden_size")
    d_value = d_model // cfg.size("num_attention_heads")
    norm = rms_norm(cfg, 1e-5)
    depth = cfg.number("scale_depth", absent=1.4, null=math.sqrt(n_layers))
    layer = LayerGroup(
        count=n_layers,
        mixer=latent_attention(cfg, q_rank_absent=768, interleaved=False, d_value_absent=d_value),
        channel=gated_mlp(cfg),
        norm=norm,
        residual_scale=depth / math.sqrt(n_layers),
    )
    return decoder(
        cfg,
        {"layers": (layer,)},
        max_seq_len=32768,
        tied=True,
        norm=norm,
        embed_scale=cfg.number("scale_emb", absent=12.0),
        logit_scale=cfg.size("dim_model_base", absent=256, null=d_model) / d_model,
    )
